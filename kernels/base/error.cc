#include "kernels/base/error.h"

#include <algorithm>

namespace titan {
namespace {

constexpr size_t kLongestLine = 1000;

bool is_control(char c) { return (static_cast<unsigned char>(c) < 0x20 && c != '\n') || c == 0x7f; }

std::string without_middle(std::string line) {
  if (line.size() <= kLongestLine) return line;
  constexpr size_t kEnd = kLongestLine / 3, kBegin = kLongestLine - kEnd;
  const std::string gap = fmt::format(" [{} bytes more] ", line.size() - kLongestLine);
  return line.replace(kBegin, line.size() - kLongestLine, gap);
}

}  // namespace

std::string readable(const std::string& message) {
  std::string text, line;
  for (const char c : message) {
    if (is_control(c)) {
      line += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    } else if (c == '\n') {
      text += without_middle(std::move(line)) + c;
      line.clear();
    } else {
      line += c;
    }
  }
  return text + without_middle(std::move(line));
}

}  // namespace titan

namespace titan::detail {

void check_failed(const char* file, int line, const char* expression, const std::string& detail) {
  throw InternalError(fmt::format("{}:{}: check failed: {}{}{}. This is a bug in titan.", file, line,
                                  expression, detail.empty() ? "" : ": ", detail));
}

}  // namespace titan::detail
