#include "engine/data/inspect.h"

#include "engine/data/prepared_shards.h"
#include "engine/data/token_shard.h"
#include "engine/tokenizer/tokenizer.h"
#include "kernels/base/error.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace titan {

namespace {

double bytes_per_token(const DataSummary& s) {
  return static_cast<double>(s.text_bytes) / static_cast<double>(s.tokens);
}

/// One line: control characters and quotes escaped, as JSON does.
std::string quoted(const std::string& text) {
  using nlohmann::json;
  return json(text).dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace

DataSummary summarize_data(const std::filesystem::path& path, int64_t first_tokens, bool verify) {
  const std::vector<std::filesystem::path> paths = find_shards({path.string()});
  if (paths.empty()) {
    throw UserError(fmt::format(
        "{} is neither a token shard ({}) nor a folder of them; make one with `titan data prepare`",
        path.string(), kShardSuffix));
  }
  DataSummary out;
  out.path = path;
  out.shards = static_cast<int64_t>(paths.size());
  for (const std::filesystem::path& shard_path : paths) {
    const TokenShard shard(shard_path);
    if (verify) shard.verify();
    if (out.tokens == 0) {
      out.first_tokens.resize(static_cast<size_t>(std::min(first_tokens, shard.info().token_count)));
      shard.read(0, out.first_tokens);
      out.token_bytes = shard.info().token_bytes;
      out.vocab_size = shard.info().vocab_size;
      out.tokenizer = shard.info().tokenizer;
    }
    out.tokens += shard.info().token_count;
    out.documents += shard.info().document_count;
    out.text_bytes += shard.info().text_bytes;
    out.file_bytes += static_cast<int64_t>(std::filesystem::file_size(shard_path));
  }
  return out;
}

std::string format_summary(const DataSummary& s, const Tokenizer* tokenizer) {
  std::string out;
  const auto line = [&](std::string_view name, const std::string& value) {
    out += fmt::format("{:<14} {}\n", name, value);
  };
  line("path", s.path.string());
  line("shards", fmt::format("{}, {} bytes", s.shards, s.file_bytes));
  line("tokens", fmt::format("{} (uint{})", s.tokens, 8 * s.token_bytes));
  line("documents", fmt::format("{}", s.documents));
  line("text", fmt::format("{} bytes, {:.3f} bytes/token", s.text_bytes, bytes_per_token(s)));
  line("tokenizer", fmt::format("{}, vocabulary {}", s.tokenizer, s.vocab_size));
  line("first tokens", fmt::format("{}", fmt::join(s.first_tokens, " ")));
  if (tokenizer && tokenizer->fingerprint() == s.tokenizer)
    line("first text", quoted(tokenizer->decode(s.first_tokens)));
  return out;
}

std::string summary_to_json(const DataSummary& s) {
  return nlohmann::json{{"path", s.path.string()},
                        {"shards", s.shards},
                        {"file_bytes", s.file_bytes},
                        {"tokens", s.tokens},
                        {"dtype", fmt::format("uint{}", 8 * s.token_bytes)},
                        {"documents", s.documents},
                        {"text_bytes", s.text_bytes},
                        {"bytes_per_token", bytes_per_token(s)},
                        {"tokenizer", s.tokenizer},
                        {"vocab_size", s.vocab_size},
                        {"first_tokens", s.first_tokens}}
      .dump();
}

}  // namespace titan
