// The value of a recipe key, whatever its type, and the set of values a key takes.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace titan {

using Value = std::variant<int64_t, double, bool, std::string, std::vector<std::string>,
                           std::vector<std::vector<std::string>>, std::optional<int64_t>,
                           std::optional<double>, std::optional<bool>, std::optional<std::string>>;

template <class T>
constexpr bool is_optional = false;
template <class T>
constexpr bool is_optional<std::optional<T>> = true;

/// The values that a key's type allows and the key takes. Choices bind strings and every item of a list,
/// bounds bind numbers; an absent optional is always taken.
struct Domain {
  std::string_view choices = "";  // "a|b|c"; empty: any
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool low_excluded = false;
  bool high_excluded = false;
  std::optional<double> also = std::nullopt;  // one more number, outside the bounds
  bool non_empty = false;

  constexpr Domain or_also(double value) const {
    Domain domain = *this;
    domain.also = value;
    return domain;
  }
};

constexpr Domain anything() { return {}; }
constexpr Domain one_of(std::string_view choices) { return {.choices = choices}; }
constexpr Domain at_least(double low) { return {.low = low}; }
constexpr Domain above(double low) { return {.low = low, .low_excluded = true}; }
constexpr Domain between(double low, double high) { return {.low = low, .high = high}; }
constexpr Domain from_up_to(double low, double high) {
  return {.low = low, .high = high, .high_excluded = true};
}
constexpr Domain non_empty() { return {.non_empty = true}; }

bool contains(const Domain& domain, const Value& value);

/// "integer", "number", "boolean", "string", "list of strings" ...
std::string_view type_name(const Value& value);

/// The domain for a reader: ">= 1", "in [0, 1)", "a | b | c"; empty when every value is taken.
std::string describe(const Domain& domain);

/// What to write there: "an integer >= 1", "one of \"a\", \"b\"".
std::string expectation(const Domain& domain, const Value& value);

/// `text` as a TOML basic string, quotes included.
std::string quote(std::string_view text);

/// As in TOML; "none" for an absent optional, which TOML cannot write.
std::string to_text(const Value& value);

/// Pieces of `text` between separators, without the spaces around them; none for an empty text.
std::vector<std::string> split(std::string_view text, char separator);

}  // namespace titan
