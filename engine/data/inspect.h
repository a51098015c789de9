// What `titan data inspect` shows.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace titan {

class Tokenizer;

struct DataSummary {
  std::filesystem::path path;
  int64_t shards = 0;
  int64_t tokens = 0;
  int64_t documents = 0;
  int64_t text_bytes = 0;
  int64_t file_bytes = 0;
  int token_bytes = 0;
  int64_t vocab_size = 0;
  std::string tokenizer;  ///< fingerprint
  std::vector<int32_t> first_tokens;
};

/// Of a shard or a folder of shards. `verify` reads everything and compares the hashes. Throws UserError.
DataSummary summarize_data(const std::filesystem::path& path, int64_t first_tokens = 16, bool verify = false);

/// Aligned lines for people; with a tokenizer the first tokens are also shown as text.
std::string format_summary(const DataSummary& summary, const Tokenizer* tokenizer);
/// One JSON object for programs.
std::string summary_to_json(const DataSummary& summary);

}  // namespace titan
