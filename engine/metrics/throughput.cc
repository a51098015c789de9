#include "engine/metrics/throughput.h"

#include <utility>

#include "kernels/base/error.h"

namespace titan {

ThroughputMeter::ThroughputMeter(int64_t devices_per_batch, Clock clock)
    : devices_per_batch_(devices_per_batch), clock_(std::move(clock)), start_(clock_()) {
  TITAN_CHECK_LE(1, devices_per_batch_);
}

void ThroughputMeter::add_step(int64_t tokens, double data_loading_seconds) {
  ++steps_;
  tokens_ += tokens;
  data_loading_ += data_loading_seconds;
}

ThroughputMeter::Window ThroughputMeter::take() {
  const double now = clock_();
  Window window{.steps = steps_, .seconds = now - start_};
  if (window.seconds > 0)
    window.tps = static_cast<double>(tokens_) / (window.seconds * static_cast<double>(devices_per_batch_));
  if (steps_ > 0) {
    window.end_to_end_seconds = window.seconds / static_cast<double>(steps_);
    window.data_loading_seconds = data_loading_ / static_cast<double>(steps_);
  }
  start_ = now;
  steps_ = tokens_ = 0;
  data_loading_ = 0.0;
  return window;
}

}  // namespace titan
