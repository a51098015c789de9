// The order of samples drawn from several data sets with fixed weights: a pure function of (seed, global
// sample number), as SampleOrder is for one.
#pragma once

#include "engine/data/sample_order.h"

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace titan {

/// Decimal numbers as whole numbers in the same ratio, without a common divisor: 0.7 and 0.3 are 7 and 3.
/// Throws UserError, with the number at fault, for what is no positive decimal number and for ratios whose
/// sum exceeds kLongestPeriod.
std::vector<int64_t> whole_weights(std::span<const std::string_view> weights);

inline constexpr int64_t kLongestPeriod = 1'000'000;

/// Which data set each sample comes from, and its number there. After any number n of samples, data set i of
/// N has given n · weight[i] / sum of the weights, to less than one sample (Tijdeman's chairman assignment:
/// at most 1 - 1/(2N-2)). The turns repeat after as many samples as the weights' sum.
class SampleMix {
 public:
  struct Sample {
    size_t part;     ///< the data set
    int64_t window;  ///< in [0, windows[part])
    int64_t epoch;   ///< how often all windows of this data set were visited before
  };

  /// windows[i] > 0 and weights[i] > 0 of data set i. One data set alone is visited as by
  /// SampleOrder(windows, seed).
  SampleMix(const std::vector<int64_t>& windows, const std::vector<int64_t>& weights, uint64_t seed);

  Sample operator()(int64_t sample) const;
  /// The samples of data set `part` among the first `samples`.
  int64_t drawn(size_t part, int64_t samples) const;
  /// The highest epoch that any data set has reached with this sample.
  int64_t epoch(int64_t sample) const;
  size_t parts() const { return orders_.size(); }

 private:
  std::vector<SampleOrder> orders_;
  std::vector<uint16_t> turns_;               ///< one period: the data set of each sample
  std::vector<std::vector<int32_t>> places_;  ///< of each data set in the period, ascending
};

}  // namespace titan
