#include "engine/bench/sweep.h"

#include <algorithm>

#include "kernels/base/error.h"

namespace titan {
namespace {

constexpr std::size_t kMostCombinations = 10'000;

/// At commas that are in no bracket and no quote.
std::vector<std::string> split_values(std::string_view text) {
  std::vector<std::string> values(1);
  int depth = 0;
  char quote = 0;
  for (const char c : text) {
    if (quote != 0) {
      if (c == quote) quote = 0;
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '[') {
      ++depth;
    } else if (c == ']') {
      --depth;
    } else if (c == ',' && depth == 0) {
      values.emplace_back();
      continue;
    }
    values.back() += c;
  }
  return values;
}

}  // namespace

Sweep parse_sweep(std::string_view text) {
  const auto fail = [&](const std::string& why) {
    throw UsageError(fmt::format("--sweep {}: {}; write --sweep section.key=a,b,c", text, why));
  };
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos) fail("no values");
  Sweep sweep{.key = std::string(text.substr(0, equals)), .values = split_values(text.substr(equals + 1))};
  if (sweep.key.find('.') == std::string::npos) fail("no section.key before the =");
  for (std::size_t i = 0; i < sweep.values.size(); ++i) {
    const std::string& value = sweep.values[i];
    if (value.empty()) fail("an empty value");
    if (std::find(sweep.values.begin(), sweep.values.begin() + static_cast<std::ptrdiff_t>(i), value) !=
        sweep.values.begin() + static_cast<std::ptrdiff_t>(i))
      fail(fmt::format("{} stands twice", value));
  }
  return sweep;
}

std::vector<std::vector<std::string>> combinations(std::span<const Sweep> sweeps) {
  std::vector<std::vector<std::string>> all(1);
  for (std::size_t i = 0; i < sweeps.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j)
      if (sweeps[j].key == sweeps[i].key)
        throw UsageError(fmt::format("--sweep {} is given twice; put all values into one", sweeps[i].key));
    if (all.size() * sweeps[i].values.size() > kMostCombinations)
      throw UsageError(
          fmt::format("the sweeps have more than {} combinations; sweep less", kMostCombinations));
    std::vector<std::vector<std::string>> longer;
    for (const auto& combination : all)
      for (const std::string& value : sweeps[i].values) {
        longer.push_back(combination);
        longer.back().push_back(value);
      }
    all = std::move(longer);
  }
  return all;
}

}  // namespace titan
