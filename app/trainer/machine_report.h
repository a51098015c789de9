// What this machine has, and what titan uses of it.
#pragma once

#include <string>

namespace titan {

/// One fact a line, the name first.
std::string machine_report();

}  // namespace titan
