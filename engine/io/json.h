// JSON from outside. For .cc files: it includes the JSON library.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace titan {

/// JSON that is not what it should be, in words that need the name of the file in front.
class JsonError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// What the library says, without the names of its own parts.
inline std::string problem_of(const nlohmann::json::exception& error) {
  std::string text = error.what();
  if (text.starts_with("[json.exception")) text.erase(0, text.find(']') + 2);
  return text;
}

inline constexpr int kMostJsonLevels = 100;

/// `text` as JSON. Throws JsonError where it is not, and where it is nested deeper than any file
/// titan reads: trees are copied and printed by recursion.
template <class Json = nlohmann::json>
Json parse_json(std::string_view text) {
  const auto check = [](int depth, typename Json::parse_event_t, Json&) {
    if (depth > kMostJsonLevels)
      throw JsonError(fmt::format("nested deeper than {} levels", kMostJsonLevels));
    return true;
  };
  try {
    return Json::parse(text, check);
  } catch (const nlohmann::json::exception& error) {
    throw JsonError(problem_of(error));
  }
}

/// A whole number that fits; nothing is rounded.
template <class Integer = int64_t>
Integer whole_number(const nlohmann::json& value) {
  const bool fits = value.is_number_unsigned()
                        ? std::in_range<Integer>(value.get<uint64_t>())
                        : value.is_number_integer() && std::in_range<Integer>(value.get<int64_t>());
  if (!fits) throw JsonError(fmt::format("a {} where a whole number in range belongs", value.type_name()));
  return value.get<Integer>();
}

}  // namespace titan
