// JSON from outside. For .cc files: it includes the JSON library.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <string_view>

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

/// A number that is whole and fits; nothing is rounded.
inline int64_t whole_number(const nlohmann::json& value) {
  const bool fits =
      value.is_number_unsigned() ? value.get<uint64_t>() <= INT64_MAX : value.is_number_integer();
  if (!fits) throw JsonError(fmt::format("a {} where a whole number belongs", value.type_name()));
  return value.get<int64_t>();
}

}  // namespace titan
