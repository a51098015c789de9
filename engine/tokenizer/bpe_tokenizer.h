// Puts the parts of a BPE tokenizer together.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/tokenizer/added_tokens.h"
#include "engine/tokenizer/bpe.h"
#include "engine/tokenizer/pre_tokenizer.h"
#include "engine/tokenizer/tokenizer.h"

namespace titan {

/// All that a tokenizer file says.
struct BpeDescription {
  BpeModel model;
  std::vector<PreTokenizer::Stage> stages;
  std::vector<AddedToken> added;  // their contents are in model.tokens too
  std::optional<int32_t> bos, eos;
  std::string content_hash;  // of the file's bytes
};

std::unique_ptr<Tokenizer> make_bpe_tokenizer(BpeDescription description);

/// The readers. Both throw UserError; bos and eos are set only where the file says which tokens they are.
BpeDescription read_tokenizer_json(const std::filesystem::path& path);
BpeDescription read_tiktoken_ranks(const std::filesystem::path& path);

}  // namespace titan
