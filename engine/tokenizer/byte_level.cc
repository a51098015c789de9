#include "engine/tokenizer/byte_level.h"

#include <array>
#include <cstdint>

#include "engine/tokenizer/utf8.h"

namespace titan {
namespace {

constexpr int kCharacters = 256 + 68;  // 68 bytes are not printable Latin-1

struct Alphabet {
  std::array<char32_t, 256> character{};
  std::array<int16_t, kCharacters> byte{};
};

constexpr Alphabet make_alphabet() {
  Alphabet alphabet;
  alphabet.byte.fill(-1);
  char32_t next = 256;
  for (int b = 0; b < 256; ++b) {
    const bool printable = (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
    alphabet.character[b] = printable ? b : next++;
    alphabet.byte[alphabet.character[b]] = static_cast<int16_t>(b);
  }
  return alphabet;
}

constexpr Alphabet kAlphabet = make_alphabet();

}  // namespace

std::string byte_level_character(unsigned char byte) {
  std::string text;
  append_utf8(kAlphabet.character[byte], text);
  return text;
}

std::optional<std::string> bytes_of_byte_level(std::string_view spelled) {
  std::string bytes;
  for (size_t at = 0; at < spelled.size();) {
    const Utf8Char c = utf8_char_at(spelled, at);
    if (c.code_point >= kCharacters || kAlphabet.byte[c.code_point] < 0) return std::nullopt;
    bytes.push_back(static_cast<char>(kAlphabet.byte[c.code_point]));
    at += c.length;
  }
  return bytes;
}

}  // namespace titan
