// Preparing data with a progress bar for each of its phases.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "engine/data/prepare.h"

namespace titan {

PreparedData prepare_with_bar(const std::vector<std::string>& inputs, const Tokenizer& tokenizer,
                              const std::filesystem::path& cache, int threads);

}  // namespace titan
