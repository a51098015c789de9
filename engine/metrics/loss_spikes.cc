#include "engine/metrics/loss_spikes.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace titan {
namespace {

constexpr std::size_t kWindow = 64, kEnough = 16;
constexpr std::int64_t kQuietSteps = 50;
constexpr double kDeviationsPerMad = 1.4826, kLeastDeviation = 0.01;

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// m and d of the rule.
std::pair<double, double> level_of(const std::deque<double>& losses) {
  const double level = median({losses.begin(), losses.end()});
  std::vector<double> distances;
  for (const double loss : losses) distances.push_back(std::abs(loss - level));
  return {level,
          std::max(kDeviationsPerMad * median(std::move(distances)), kLeastDeviation * std::abs(level))};
}

}  // namespace

std::optional<LossSpikes::Spike> LossSpikes::add(double loss) {
  ++step_;
  std::optional<Spike> spike;
  if (deviations_ > 0 && recent_.size() >= kEnough) {
    const auto [level, deviation] = level_of(recent_);
    const double limit = level + deviations_ * deviation;
    if (loss > limit) spike = {level, limit, untold_};
  }
  recent_.push_back(loss);
  if (recent_.size() > kWindow) recent_.pop_front();
  if (!spike) return std::nullopt;
  if (told_at_ >= 0 && step_ - told_at_ < kQuietSteps) {
    ++untold_;
    return std::nullopt;
  }
  told_at_ = step_;
  untold_ = 0;
  return spike;
}

}  // namespace titan
