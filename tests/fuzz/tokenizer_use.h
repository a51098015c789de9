// What every tokenizer keeps, whatever its file says.
#pragma once

#include "engine/tokenizer/tokenizer.h"

#include <filesystem>

namespace titan::fuzz {

/// Loads the file, if it is one, and encodes and decodes a text made to be hard.
void use_tokenizer(const std::filesystem::path& path);

}  // namespace titan::fuzz
