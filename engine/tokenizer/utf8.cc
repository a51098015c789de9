#include "engine/tokenizer/utf8.h"

#include <cstring>

namespace titan {
namespace {

constexpr char32_t kReplacement = 0xFFFD;

// Skips bytes below 0x80, eight at a time.
size_t skip_ascii(std::string_view text, size_t at) {
  for (; at + 8 <= text.size(); at += 8) {
    uint64_t word;
    std::memcpy(&word, text.data() + at, 8);
    if (word & 0x8080808080808080u) break;
  }
  while (at < text.size() && static_cast<unsigned char>(text[at]) < 0x80) ++at;
  return at;
}

}  // namespace

Utf8Char utf8_char_at(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(at);
  if (lead < 0x80) return {lead, 1, true};
  // Only the second byte's range depends on the lead (Unicode 16, table 3-7).
  int length = 0;
  unsigned char low = 0x80, high = 0xBF;
  if (lead >= 0xC2 && lead <= 0xDF) {
    length = 2;
  } else if (lead >= 0xE0 && lead <= 0xEF) {
    length = 3;
    if (lead == 0xE0) low = 0xA0;
    if (lead == 0xED) high = 0x9F;
  } else if (lead >= 0xF0 && lead <= 0xF4) {
    length = 4;
    if (lead == 0xF0) low = 0x90;
    if (lead == 0xF4) high = 0x8F;
  } else {
    return {kReplacement, 1, false};
  }
  char32_t code_point = lead & (0xFF >> (length + 1));
  for (int i = 1; i < length; ++i) {
    if (at + i >= text.size() || byte(at + i) < low || byte(at + i) > high) return {kReplacement, i, false};
    code_point = code_point << 6 | (byte(at + i) & 0x3F);
    low = 0x80, high = 0xBF;
  }
  return {code_point, length, true};
}

bool is_valid_utf8(std::string_view text) {
  for (size_t at = skip_ascii(text, 0); at < text.size(); at = skip_ascii(text, at)) {
    const Utf8Char c = utf8_char_at(text, at);
    if (!c.valid) return false;
    at += c.length;
  }
  return true;
}

std::string replace_invalid_utf8(std::string_view text) {
  std::string result;
  result.reserve(text.size() + 16);
  for (size_t at = 0; at < text.size();) {
    const Utf8Char c = utf8_char_at(text, at);
    if (c.valid) {
      result.append(text, at, c.length);
    } else {
      append_utf8(kReplacement, result);
    }
    at += c.length;
  }
  return result;
}

void append_utf8(char32_t code_point, std::string& text) {
  const auto push = [&](char32_t byte) { text.push_back(static_cast<char>(byte)); };
  const auto push_tail = [&](int shift) { push(0x80 | (code_point >> shift & 0x3F)); };
  if (code_point < 0x80) {
    push(code_point);
  } else if (code_point < 0x800) {
    push(0xC0 | code_point >> 6);
    push_tail(0);
  } else if (code_point < 0x10000) {
    push(0xE0 | code_point >> 12);
    push_tail(6);
    push_tail(0);
  } else {
    push(0xF0 | code_point >> 18);
    push_tail(12);
    push_tail(6);
    push_tail(0);
  }
}

bool is_white_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

}  // namespace titan
