// Tokens that are found in the text before it is split into words, such as <|end_of_text|>.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/tokenizer/regex.h"

namespace titan {

/// As in tokenizer.json.
struct AddedToken {
  std::string content;
  int32_t id = -1;
  bool normalized = false;   // searched after all tokens that are not
  bool lstrip = false;       // takes the white space before it
  bool rstrip = false;       // takes the white space after it
  bool single_word = false;  // only where no word character touches it
};

class AddedTokens {
 public:
  explicit AddedTokens(std::vector<AddedToken> tokens);

  /// Calls `on_token` and `on_text` (never empty) from left to right. Of tokens that begin at the same place
  /// the longest counts.
  void split(std::string_view text, RegexScratch& scratch, const std::function<void(int32_t)>& on_token,
             const std::function<void(std::string_view)>& on_text) const;

 private:
  // The tokens searched in one pass.
  struct Set {
    std::vector<AddedToken> sorted;      // by content
    std::array<bool, 256> begins_one{};  // by first byte

    void add(AddedToken token);
    const AddedToken* longest_at(std::string_view text, size_t at) const;
  };
  void split_by(const Set& set, std::string_view text, RegexScratch& scratch,
                const std::function<void(int32_t)>& on_token,
                const std::function<void(std::string_view)>& on_text) const;

  Set raw_, normalized_;
  Regex word_character_;
};

}  // namespace titan
