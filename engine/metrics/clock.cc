#include "engine/metrics/clock.h"

#include <chrono>

namespace titan {
namespace {

template <class StdClock>
double seconds() {
  return std::chrono::duration<double>(StdClock::now().time_since_epoch()).count();
}

}  // namespace

double steady_seconds() { return seconds<std::chrono::steady_clock>(); }
double unix_seconds() { return seconds<std::chrono::system_clock>(); }

}  // namespace titan
