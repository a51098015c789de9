#include "kernels/base/error.h"

namespace titan::detail {

void check_failed(const char* file, int line, const char* expression, const std::string& detail) {
  throw InternalError(fmt::format("{}:{}: check failed: {}{}{}. This is a bug in titan.", file, line,
                                  expression, detail.empty() ? "" : ": ", detail));
}

}  // namespace titan::detail
