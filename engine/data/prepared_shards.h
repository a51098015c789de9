// Token shards given as the data itself, instead of text.
#pragma once

#include "engine/data/prepare.h"

#include <filesystem>
#include <string>
#include <vector>

namespace titan {

/// The shards in `inputs`, in order: shard files, globs of them, folders made by prepare_data, folders of
/// shards. Empty when the inputs are text. Throws UserError for a mixture of both and for a folder whose
/// preparation has not finished.
std::vector<std::filesystem::path> find_shards(const std::vector<std::string>& inputs);

/// Throws UserError when a shard is damaged or was made by another tokenizer.
PreparedData open_shards(const std::vector<std::filesystem::path>& shards, const Tokenizer& tokenizer);

}  // namespace titan
