// UTF-8 as the Unicode standard defines it: no overlong forms, no surrogates, nothing above U+10FFFF.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace titan {

/// What starts at `text[at]`: a whole character, or the longest beginning of one that cannot continue.
struct Utf8Char {
  char32_t code_point;  // U+FFFD if invalid
  int length;           // bytes consumed, at least 1
  bool valid;
};
Utf8Char utf8_char_at(std::string_view text, size_t at);

bool is_valid_utf8(std::string_view text);

/// Each maximal invalid sequence becomes U+FFFD, as in Python's errors="replace" and Rust's from_utf8_lossy.
std::string replace_invalid_utf8(std::string_view text);

void append_utf8(char32_t code_point, std::string& text);

/// Unicode's White_Space property.
bool is_white_space(char32_t code_point);

}  // namespace titan
