// Tokens a second since the last log.
#pragma once

#include <cstdint>

#include "engine/metrics/clock.h"

namespace titan {

class ThroughputMeter {
 public:
  struct Window {
    int64_t steps = 0;
    double seconds = 0.0;
    double tps = 0.0;                   // tokens a second and device
    double end_to_end_seconds = 0.0;    // mean of a step
    double data_loading_seconds = 0.0;  // mean of a step
  };

  /// `devices_per_batch`: the ranks that work on the same tokens (tp * pp * cp); they share their throughput.
  explicit ThroughputMeter(int64_t devices_per_batch = 1, Clock clock = steady_seconds);

  /// A step is done: the tokens this data-parallel rank put in, and how long it waited for them.
  void add_step(int64_t tokens, double data_loading_seconds = 0.0);

  /// Time that was not training, such as a validation: the window does not see it.
  void exclude(double seconds) { start_ += seconds; }

  /// What happened since the last call (or the start), and begins a new window.
  Window take();

 private:
  int64_t devices_per_batch_;
  Clock clock_;
  double start_;
  int64_t steps_ = 0;
  int64_t tokens_ = 0;
  double data_loading_ = 0.0;
};

}  // namespace titan
