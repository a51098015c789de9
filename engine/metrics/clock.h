// Clocks that tests can replace.
#pragma once

#include <functional>

namespace titan {

/// Seconds from a fixed moment.
using Clock = std::function<double()>;

double steady_seconds();  // never goes back; for durations
double unix_seconds();    // since 1970; for dates

}  // namespace titan
