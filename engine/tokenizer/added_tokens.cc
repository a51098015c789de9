#include "engine/tokenizer/added_tokens.h"

#include <algorithm>

#include "engine/tokenizer/utf8.h"

namespace titan {
namespace {

unsigned char byte_at(std::string_view text, size_t at) { return static_cast<unsigned char>(text[at]); }

// The start of the character that ends at `end` > 0.
size_t character_before(std::string_view text, size_t end) {
  do --end;
  while (end > 0 && (byte_at(text, end) & 0xC0) == 0x80);
  return end;
}

size_t skip_white_space_back(std::string_view text, size_t at) {
  while (at > 0) {
    const size_t previous = character_before(text, at);
    if (!is_white_space(utf8_char_at(text, previous).code_point)) break;
    at = previous;
  }
  return at;
}

size_t skip_white_space(std::string_view text, size_t at) {
  while (at < text.size()) {
    const Utf8Char c = utf8_char_at(text, at);
    if (!is_white_space(c.code_point)) break;
    at += c.length;
  }
  return at;
}

}  // namespace

void AddedTokens::Set::add(AddedToken token) {
  begins_one[byte_at(token.content, 0)] = true;
  const auto place =
      std::lower_bound(sorted.begin(), sorted.end(), token.content,
                       [](const AddedToken& a, const std::string& b) { return a.content < b; });
  sorted.insert(place, std::move(token));
}

// Narrows the sorted tokens byte by byte to those that agree with the text.
const AddedToken* AddedTokens::Set::longest_at(std::string_view text, size_t at) const {
  if (!begins_one[byte_at(text, at)]) return nullptr;
  const AddedToken* longest = nullptr;
  auto first = sorted.begin(), last = sorted.end();
  for (size_t depth = 0; first != last; ++depth) {
    if (first->content.size() == depth) longest = &*first++;
    if (at + depth >= text.size()) break;
    const auto below = [&](const AddedToken& token, unsigned char byte) {
      return byte_at(token.content, depth) < byte;
    };
    const auto above = [&](unsigned char byte, const AddedToken& token) {
      return byte < byte_at(token.content, depth);
    };
    first = std::lower_bound(first, last, byte_at(text, at + depth), below);
    last = std::upper_bound(first, last, byte_at(text, at + depth), above);
  }
  return longest;
}

// A word character is Rust's \w, as Hugging Face uses it for single_word.
AddedTokens::AddedTokens(std::vector<AddedToken> tokens)
    : word_character_(R"([\p{Alphabetic}\p{L}\p{M}\p{Nd}\p{Pc}\p{Join_Control}])") {
  for (AddedToken& token : tokens) {
    Set& set = token.normalized ? normalized_ : raw_;
    set.add(std::move(token));
  }
}

void AddedTokens::split(std::string_view text, RegexScratch& scratch,
                        const std::function<void(int32_t)>& on_token,
                        const std::function<void(std::string_view)>& on_text) const {
  if (normalized_.sorted.empty()) return split_by(raw_, text, scratch, on_token, on_text);
  split_by(raw_, text, scratch, on_token,
           [&](std::string_view piece) { split_by(normalized_, piece, scratch, on_token, on_text); });
}

void AddedTokens::split_by(const Set& set, std::string_view text, RegexScratch& scratch,
                           const std::function<void(int32_t)>& on_token,
                           const std::function<void(std::string_view)>& on_text) const {
  const auto is_word = [&](size_t at) {
    const std::string_view character = text.substr(at, utf8_char_at(text, at).length);
    return word_character_.find(character, 0, scratch).has_value();
  };
  size_t done = 0;
  for (size_t at = 0; at < text.size();) {
    const AddedToken* token = set.longest_at(text, at);
    if (!token) {
      ++at;
      continue;
    }
    size_t begin = at, end = at + token->content.size();
    at = end;  // a token that does not count still hides others inside it
    if (token->single_word &&
        ((begin > 0 && is_word(character_before(text, begin))) || (end < text.size() && is_word(end)))) {
      continue;
    }
    if (token->lstrip) begin = std::max(skip_white_space_back(text, begin), done);
    if (token->rstrip) end = skip_white_space(text, end);
    if (done < begin) on_text(text.substr(done, begin - done));
    on_token(token->id);
    done = end;
  }
  if (done < text.size()) on_text(text.substr(done));
}

}  // namespace titan
