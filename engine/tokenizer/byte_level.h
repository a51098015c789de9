// The alphabet in which byte-level tokenizer files spell bytes: printable Latin-1 characters stand for
// themselves, the other bytes, in order, for U+0100 and up. A space is U+0120.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace titan {

/// How `byte` is spelled, in UTF-8.
std::string byte_level_character(unsigned char byte);

/// The bytes that `spelled` stands for; nothing if a character is not of the alphabet.
std::optional<std::string> bytes_of_byte_level(std::string_view spelled);

}  // namespace titan
