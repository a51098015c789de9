// The regular expressions of tokenizer files. Hugging Face runs them on Oniguruma, tiktoken on Rust's regex,
// both with the character classes of Unicode 16; here PCRE2 runs them, after a translation that makes the
// classes the same.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

struct pcre2_real_code_8;

namespace titan {

/// What one thread needs to match: any number of regexes share it, one after another.
class RegexScratch {
 public:
  RegexScratch();
  ~RegexScratch();
  RegexScratch(RegexScratch&&) noexcept;

 private:
  friend class Regex;
  struct Handles;
  std::unique_ptr<Handles> handles_;
};

class Regex {
 public:
  struct Match {
    size_t begin, end;  // bytes
  };

  /// Throws UserError with the construct at fault. Supported: literals, alternatives, groups ( (?: (?i: (?>
  /// lookarounds, greedy, lazy and possessive * + ?, {n} {n,} {n,m}, character classes, \p{..} of general
  /// categories, \s \d \w, \r \n \t \f \x{..} \u.... and escaped punctuation: the part that means the same in
  /// all three engines.
  explicit Regex(std::string_view pattern);
  ~Regex();
  Regex(Regex&&) noexcept;

  /// The leftmost match that begins at byte `from` or later. `text` is valid UTF-8.
  std::optional<Match> find(std::string_view text, size_t from, RegexScratch& scratch) const;

 private:
  struct FreeCode {
    void operator()(pcre2_real_code_8* code) const;
  };
  std::unique_ptr<pcre2_real_code_8, FreeCode> code_;
};

/// The pattern in PCRE2's dialect. Exposed for tests.
std::string translate_regex(std::string_view pattern);

}  // namespace titan
