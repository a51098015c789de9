#include "engine/bench/statistics.h"

#include <algorithm>

namespace titan {
namespace {

double quantile(const std::vector<double>& sorted, double share) {
  const double at = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(at);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (at - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

}  // namespace

Spread spread(std::vector<double> samples) {
  if (samples.empty()) return {};
  std::sort(samples.begin(), samples.end());
  return {.count = static_cast<int>(samples.size()),
          .min = samples.front(),
          .quarter = quantile(samples, 0.25),
          .median = quantile(samples, 0.5),
          .three_quarters = quantile(samples, 0.75),
          .max = samples.back()};
}

}  // namespace titan
