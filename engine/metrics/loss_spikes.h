// Losses that stand far above the recent ones: the first thing to look at when a run goes wrong.
//
// The rule: a loss is a spike when it exceeds m + k·d. m is the median of the last 64 losses; d, their
// deviation, is 1.4826 times the median of |loss − m|, which for normally distributed losses is the standard
// deviation, but at least 1 % of |m|. k is metrics.loss_spike_deviations. Spikes count among the 64, and a
// few of them move neither median; a loss that stays high is the new level after 32 steps. Nothing is a spike
// before 16 losses are known.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>

namespace titan {

class LossSpikes {
 public:
  /// `deviations` is k; 0: nothing is a spike.
  explicit LossSpikes(double deviations) : deviations_(deviations) {}

  struct Spike {
    double level;         ///< m
    double limit;         ///< m + k·d
    std::int64_t untold;  ///< spikes since the last one that was returned
  };
  /// The loss of the next step. Returns a spike if it is one, but only every 50 steps: the others are
  /// counted.
  std::optional<Spike> add(double loss);

 private:
  double deviations_;
  std::deque<double> recent_;
  std::int64_t step_ = 0, told_at_ = -1, untold_ = 0;
};

}  // namespace titan
