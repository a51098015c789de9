#include "engine/recipe/value.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <type_traits>

namespace titan {
namespace {

bool contains(const Domain& domain, double number) {
  if (!std::isfinite(number)) return false;
  if (domain.also && number == *domain.also) return true;
  const bool high_enough = domain.low_excluded ? number > domain.low : number >= domain.low;
  const bool low_enough = domain.high_excluded ? number < domain.high : number <= domain.high;
  return high_enough && low_enough;
}

bool contains(const Domain& domain, const std::string& text) {
  if (domain.non_empty && text.empty()) return false;
  if (domain.choices.empty()) return true;
  const std::vector<std::string> choices = split(domain.choices, '|');
  return std::find(choices.begin(), choices.end(), text) != choices.end();
}

bool contains(const Domain&, bool) { return true; }

template <class T>
bool contains(const Domain& domain, const std::vector<T>& items) {
  return std::all_of(items.begin(), items.end(), [&](const T& item) { return contains(domain, item); });
}

template <class T>
bool contains(const Domain& domain, const std::optional<T>& value) {
  return !value || contains(domain, *value);
}

std::string text_of(int64_t value) { return fmt::format("{}", value); }
std::string text_of(bool value) { return value ? "true" : "false"; }
std::string text_of(const std::string& value) { return quote(value); }

// The shortest digits that read back as the same double, and never an integer to TOML.
std::string text_of(double value) {
  std::string text = fmt::format("{}", value);
  const bool looks_integer = text.find_first_not_of("-0123456789") == std::string::npos;
  return looks_integer ? text + ".0" : text;
}

template <class T>
std::string text_of(const std::vector<T>& items) {
  std::vector<std::string> texts;
  for (const T& item : items) texts.push_back(text_of(item));
  return fmt::format("[{}]", fmt::join(texts, ", "));
}

template <class T>
std::string text_of(const std::optional<T>& value) {
  return value ? text_of(*value) : "none";
}

std::string_view name_of(const int64_t&) { return "integer"; }
std::string_view name_of(const double&) { return "number"; }
std::string_view name_of(const bool&) { return "boolean"; }
std::string_view name_of(const std::string&) { return "string"; }
std::string_view name_of(const std::vector<std::string>&) { return "list of strings"; }
std::string_view name_of(const std::vector<std::vector<std::string>>&) { return "list of lists of strings"; }
template <class T>
std::string_view name_of(const std::optional<T>&) {
  return name_of(T());
}

}  // namespace

bool contains(const Domain& domain, const Value& value) {
  return std::visit(
      [&](const auto& held) {
        using T = std::decay_t<decltype(held)>;
        if constexpr (std::is_same_v<T, int64_t>) {
          return contains(domain, static_cast<double>(held));
        } else if constexpr (std::is_same_v<T, std::optional<int64_t>>) {
          return !held || contains(domain, static_cast<double>(*held));
        } else {
          return contains(domain, held);
        }
      },
      value);
}

std::string_view type_name(const Value& value) {
  return std::visit([](const auto& held) { return name_of(held); }, value);
}

std::string describe(const Domain& domain) {
  if (!domain.choices.empty()) return fmt::format("{}", fmt::join(split(domain.choices, '|'), " | "));
  if (domain.non_empty) return "not empty";
  std::string text;
  if (std::isfinite(domain.high)) {
    text = fmt::format("in {}{}, {}{}", domain.low_excluded ? '(' : '[', domain.low, domain.high,
                       domain.high_excluded ? ')' : ']');
  } else if (std::isfinite(domain.low)) {
    text = fmt::format("{} {}", domain.low_excluded ? ">" : ">=", domain.low);
  }
  return domain.also ? fmt::format("{} or {}", text, *domain.also) : text;
}

std::string expectation(const Domain& domain, const Value& value) {
  const std::string_view type = type_name(value);
  if (!domain.choices.empty()) {
    std::vector<std::string> choices = split(domain.choices, '|');
    for (std::string& choice : choices) choice = quote(choice);
    return fmt::format("{} {}", type == "string" ? "one of" : "a list of", fmt::join(choices, ", "));
  }
  if (domain.non_empty) return fmt::format("a non-empty {}", type);
  const std::string constraint = describe(domain);
  return fmt::format("{} {}{}{}", type == "integer" ? "an" : "a", type, constraint.empty() ? "" : " ",
                     constraint);
}

std::string quote(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      quoted += {'\\', c};
    } else if (c == '\n') {
      quoted += "\\n";
    } else if (byte < 0x20 || byte == 0x7f) {
      quoted += fmt::format("\\u{:04X}", byte);
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

std::string to_text(const Value& value) {
  return std::visit([](const auto& held) { return text_of(held); }, value);
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> pieces;
  while (!text.empty()) {
    const size_t end = std::min(text.find(separator), text.size());
    std::string_view piece = text.substr(0, end);
    piece.remove_prefix(std::min(piece.find_first_not_of(" \t"), piece.size()));
    piece.remove_suffix(piece.size() - (piece.find_last_not_of(" \t") + 1));
    pieces.emplace_back(piece);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return pieces;
}

}  // namespace titan
