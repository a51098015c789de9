// Splits text into the words that BPE then encodes one by one.
#pragma once

#include <functional>
#include <string_view>
#include <variant>
#include <vector>

#include "engine/tokenizer/regex.h"

namespace titan {

/// Pieces of the text: the matches of the regex and, unless dropped, what lies between them.
struct SplitByRegex {
  Regex regex;
  bool keep_gaps = true;
};
/// Puts a space before each piece that has none there.
struct AddPrefixSpace {};

class PreTokenizer {
 public:
  using Stage = std::variant<SplitByRegex, AddPrefixSpace>;
  using Sink = std::function<void(std::string_view)>;

  /// Each stage works on every piece of the one before.
  explicit PreTokenizer(std::vector<Stage> stages) : stages_(std::move(stages)) {}

  /// Calls `word` from left to right. `text` is valid UTF-8 and not empty.
  void split(std::string_view text, RegexScratch& scratch, const Sink& word) const {
    run(0, text, scratch, word);
  }

 private:
  void run(size_t stage, std::string_view text, RegexScratch& scratch, const Sink& word) const;

  std::vector<Stage> stages_;
};

/// GPT-2's pattern, which ByteLevel with use_regex means.
inline constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
inline constexpr std::string_view kLlama3Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|)"
    R"(\s*[\r\n]+|\s+(?!\S)|\s+)";

}  // namespace titan
