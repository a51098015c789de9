#include "engine/metrics/step_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>

#include "engine/metrics/step_metrics.h"

namespace titan {
namespace {

constexpr double kGib = 1024.0 * 1024.0 * 1024.0;

// ANSI colours; all empty when there is no terminal to show them.
struct Palette {
  std::string_view red, green, yellow, blue, magenta, cyan, orange, turquoise, reset;
};
constexpr Palette kColors{.red = "\033[31m",
                          .green = "\033[32m",
                          .yellow = "\033[33m",
                          .blue = "\033[34m",
                          .magenta = "\033[35m",
                          .cyan = "\033[36m",
                          .orange = "\033[38;2;180;60;0m",
                          .turquoise = "\033[38;2;54;234;195m",
                          .reset = "\033[39m"};
constexpr Palette kPlain{};

// Inserts commas into the digits of `number` before any decimal point.
std::string group_digits(std::string number) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  const auto first = std::find_if(number.begin(), number.end(), is_digit) - number.begin();
  const auto end = std::find_if_not(number.begin() + first, number.end(), is_digit) - number.begin();
  for (auto at = end - 3; at > first; at -= 3) number.insert(static_cast<size_t>(at), 1, ',');
  return number;
}

std::string memory(int64_t bytes, const std::optional<double>& percent) {
  const std::string gib = fmt::format("memory: {:5.2f}GiB", static_cast<double>(bytes) / kGib);
  return percent ? fmt::format("{}({:.2f}%)", gib, *percent) : gib;
}

}  // namespace

std::string with_thousands(int64_t value) { return group_digits(fmt::format("{}", value)); }

std::string with_thousands(double value, int digits) {
  return group_digits(fmt::format("{:.{}f}", value, digits));
}

// `>`: fmt would align nan and inf to the left.
std::string step_line(const StepMetrics& m, bool color) {
  const Palette& c = color ? kColors : kPlain;
  std::string line = fmt::format("{}step: {:2}  {}loss: {:>7.4f}  {}grad_norm: {:>7.4f}  ", c.red, m.step,
                                 c.green, m.loss, c.orange, m.grad_norm);
  line += fmt::format("{}{}  ", c.turquoise, memory(m.memory_bytes, m.memory_percent));
  line += fmt::format("{}tps: {}  {}tflops: {}  ", c.blue, with_thousands(m.tps, 0), c.cyan,
                      with_thousands(m.tflops, 2));
  line += fmt::format("{}mfu: {}{}", c.magenta, m.mfu ? fmt::format("{:.2f}%", *m.mfu) : "n/a", c.reset);
  return line;
}

std::string validation_line(const ValidationMetrics& m, bool color) {
  const Palette& c = color ? kColors : kPlain;
  return fmt::format("{}validate step: {:2}  {}loss: {:>7.4f}  {}{}  {}tps: {}{}", c.yellow, m.step, c.green,
                     m.loss, c.turquoise, memory(m.memory_bytes, m.memory_percent), c.blue,
                     with_thousands(m.tps, 0), c.reset);
}

}  // namespace titan
