// Tokens that other programs prepared, as token shards.
//
//   llm.c      256 int32 of header (magic, version, number of tokens), then the tokens: magic 20240520
//   version 1 with
//              uint16, magic 20240801 version 7 with uint32
//   nanoGPT    nothing but uint16 tokens
//   Megatron   a .bin of tokens and beside it a .idx: "MMIDIDX\0\0", uint64 version 1, uint8 type, uint64
//   sequences,
//              uint64 documents + 1, int32 length and int64 byte offset of each sequence, int64 first
//              sequence of each document and a last one; what follows (modes) is left out
//
// All little-endian. Files are mapped and copied in pieces: memory does not grow with them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace titan {

class Tokenizer;

enum class TokenFormat { detect, llm_c, nano_gpt, megatron };

struct ImportOptions {
  TokenFormat format = TokenFormat::detect;  ///< detect: llm.c by its magic, Megatron by its .idx
  std::optional<int64_t> vocab_size = {};    ///< every id lies below it; absent: the tokenizer's
  /// Where documents begin in formats that do not say: before each `begin_id` or after each `end_id`. Both
  /// absent: before the tokenizer's BOS, or if it has none after its EOS.
  std::optional<int32_t> begin_id = {}, end_id = {};
  int64_t max_shard_tokens = int64_t{1} << 28;
};

struct ImportedData {
  int64_t tokens = 0;
  int64_t documents = 0;
  int64_t shards = 0;
};

/// Writes the tokens of `inputs` (.bin files, or folders and globs of them), in order, as shards of
/// `tokenizer` into `folder`, as they are: nothing is added between documents. What an earlier, also an
/// interrupted, import left in `folder` is replaced. Throws UserError with file, offset, value and fix: a
/// format that is not known or damaged, an id outside the vocabulary, a `folder` with shards that no import
/// or preparation made.
ImportedData import_tokens(const std::vector<std::string>& inputs, const Tokenizer& tokenizer,
                           const std::filesystem::path& folder, const ImportOptions& options);

}  // namespace titan
