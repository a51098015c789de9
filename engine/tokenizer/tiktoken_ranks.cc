// Llama 3's tokenizer.model: one line a token, its bytes in base64 and its rank, which is its id. Two
// neighbours merge if their joined bytes are a token, lowest rank first.
#include <charconv>

#include "engine/io/file.h"
#include "engine/tokenizer/bpe_tokenizer.h"
#include "engine/tokenizer/content_hash.h"
#include "kernels/base/error.h"

namespace titan {
namespace {

constexpr int kSpecialTokens = 256;
constexpr size_t kLongestToken = 1024;  // bytes; the work on a token grows with its square
constexpr const char* kFix =
    "expected Llama 3's format: a token in base64, a space and its rank (Llama 2's is SentencePiece)";

int base64_digit(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  if (c == '+') return 62;
  if (c == '/') return 63;
  return -1;
}

// Nothing if `text` is not base64 with its padding.
std::optional<std::string> decode_base64(std::string_view text) {
  if (text.empty() || text.size() % 4 != 0) return std::nullopt;
  const size_t padding = text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0;
  std::string bytes;
  uint32_t bits = 0;
  int count = 0;
  for (const char c : text.substr(0, text.size() - padding)) {
    const int digit = base64_digit(c);
    if (digit < 0) return std::nullopt;
    bits = bits << 6 | static_cast<uint32_t>(digit);
    count += 6;
    if (count >= 8) {
      count -= 8;
      bytes.push_back(static_cast<char>(bits >> count & 0xFF));
    }
  }
  return bytes;
}

std::vector<std::string> read_tokens(std::string_view text) {
  std::vector<std::string> tokens;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = text.substr(at, end - at);
    at = end + 1;
    const size_t space = std::min(line.find(' '), line.size());
    const std::string_view rank_text = line.substr(std::min(space + 1, line.size()));
    std::optional<std::string> bytes = decode_base64(line.substr(0, space));
    size_t rank = 0;
    const auto [rest, error] = std::from_chars(rank_text.begin(), rank_text.end(), rank);
    if (!bytes || error != std::errc() || rest != rank_text.end()) {
      throw UserError(fmt::format("line {} is not a token: {}", tokens.size() + 1, kFix));
    }
    if (rank != tokens.size()) {
      throw UserError(
          fmt::format("line {} has rank {}; ranks count from 0, one a line", tokens.size() + 1, rank));
    }
    if (bytes->size() > kLongestToken) {
      throw UserError(fmt::format("line {} is a token of {} bytes; tokens have at most {}", tokens.size() + 1,
                                  bytes->size(), kLongestToken));
    }
    tokens.push_back(*std::move(bytes));
  }
  if (tokens.empty()) throw UserError(fmt::format("the file is empty: {}", kFix));
  return tokens;
}

// Every way to put a token together from two others, in order of its rank.
std::vector<Merge> make_merges(const std::vector<std::string>& tokens, const StringTable& ids) {
  std::vector<Merge> merges;
  for (int32_t id = 0; id < static_cast<int32_t>(tokens.size()); ++id) {
    const std::string_view token = tokens[id];
    for (size_t cut = 1; cut < token.size(); ++cut) {
      const int32_t left = ids.find(token.substr(0, cut));
      if (left == StringTable::kAbsent) continue;
      const int32_t right = ids.find(token.substr(cut));
      if (right != StringTable::kAbsent) merges.push_back({left, right, id});
    }
  }
  return merges;
}

// The 256 special tokens that follow the ranks in Llama 3.1, in order of their ids.
std::vector<std::string> special_tokens() {
  std::vector<std::string> names;
  int reserved = 0;
  const auto reserve = [&](int count) {
    for (int i = 0; i < count; ++i) names.push_back(fmt::format("<|reserved_special_token_{}|>", reserved++));
  };
  names = {"<|begin_of_text|>", "<|end_of_text|>"};
  reserve(2);
  names.emplace_back("<|finetune_right_pad_id|>");
  reserve(1);
  for (const char* name :
       {"<|start_header_id|>", "<|end_header_id|>", "<|eom_id|>", "<|eot_id|>", "<|python_tag|>"}) {
    names.emplace_back(name);
  }
  reserve(kSpecialTokens - static_cast<int>(names.size()));
  return names;
}

BpeDescription describe(std::string_view text) {
  BpeDescription description;
  BpeModel& model = description.model;
  model.tokens = read_tokens(text);
  const int32_t ranks = static_cast<int32_t>(model.tokens.size());
  StringTable ids(ranks);
  for (int32_t id = 0; id < ranks; ++id) {
    if (!ids.insert(model.tokens[id], id))
      throw UserError(fmt::format("line {} repeats an earlier token", id + 1));
    model.words.push_back(id);
  }
  for (int byte = 0; byte < 256; ++byte) {
    const char character = static_cast<char>(byte);
    model.byte_ids[byte] = ids.find({&character, 1});
    if (model.byte_ids[byte] == StringTable::kAbsent) {
      throw UserError(fmt::format("no token for byte 0x{:02x}: all 256 bytes need one", byte));
    }
  }
  model.merges = make_merges(model.tokens, ids);
  description.stages.emplace_back(SplitByRegex{Regex(kLlama3Pattern)});
  int32_t next = ranks;
  for (const std::string& name : special_tokens()) {
    model.set_token(next, name);
    description.added.push_back({.content = name, .id = next++});
  }
  return description;
}

}  // namespace

BpeDescription read_tiktoken_ranks(const std::filesystem::path& path) {
  const std::string text = read_text(path);
  try {
    BpeDescription description = describe(text);
    description.content_hash = content_hash(text);
    return description;
  } catch (const UserError& error) {
    throw UserError(fmt::format("{}: {}", path.string(), error.what()));
  }
}

}  // namespace titan
