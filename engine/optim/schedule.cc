#include "engine/optim/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "kernels/base/error.h"

namespace titan {
namespace {

void check_fraction(std::string_view key, double value) {
  // Negated so that a NaN is refused too.
  if (!(value >= 0.0 && value <= 1.0))
    throw UsageError(fmt::format("{} = {}: must be between 0 and 1", key, value));
}

// What is left of the way from the peak to the minimum after a fraction `p` of the decay.
double decay_curve(Decay type, double p) {
  switch (type) {
    case Decay::linear:
      return 1.0 - p;
    case Decay::sqrt:
      return 1.0 - std::sqrt(p);
    case Decay::cosine:
      return 0.5 * (1.0 + std::cos(std::numbers::pi * p));
  }
  TITAN_CHECK(false, "decay type {}", static_cast<int>(type));
}

}  // namespace

std::optional<Decay> parse_decay(std::string_view name) {
  if (name == "linear") return Decay::linear;
  if (name == "sqrt") return Decay::sqrt;
  if (name == "cosine") return Decay::cosine;
  return std::nullopt;
}

Schedule::Schedule(const ScheduleOptions& options)
    : total_(options.total_steps.value_or(options.training_steps)),
      warmup_(options.warmup_steps),
      decay_type_(options.decay_type),
      min_factor_(options.min_lr_factor) {
  if (total_ < 1)
    throw UsageError(fmt::format("{} = {}: a run has at least one step",
                                 options.total_steps ? "lr_scheduler.total_steps" : "training.steps",
                                 total_));
  if (warmup_ < 0)
    throw UsageError(fmt::format("lr_scheduler.warmup_steps = {}: must be 0 or more", warmup_));
  if (options.decay_ratio) check_fraction("lr_scheduler.decay_ratio", *options.decay_ratio);
  check_fraction("lr_scheduler.min_lr_factor", min_factor_);

  if (options.training_steps > total_)
    warnings_.push_back(fmt::format(
        "training.steps ({}) exceed lr_scheduler.total_steps ({}): from step {} on the learning rate stays "
        "at min_lr_factor ({})",
        options.training_steps, total_, total_ + 1, min_factor_));
  if (warmup_ > total_) {
    warnings_.push_back(
        fmt::format("lr_scheduler.warmup_steps = {} is longer than the schedule's {} steps: shortened to {}",
                    warmup_, total_, total_));
    warmup_ = total_;
  }
  decay_ = total_ - warmup_;
  if (!options.decay_ratio) return;
  const auto wanted =
      static_cast<int64_t>(std::nearbyint(static_cast<double>(total_) * *options.decay_ratio));
  if (wanted > decay_)
    warnings_.push_back(fmt::format(
        "lr_scheduler: {} warmup and {} decay steps do not fit into {}: the decay is shortened to {}",
        warmup_, wanted, total_, decay_));
  decay_ = std::min(decay_, wanted);
}

double Schedule::multiplier(int64_t step) const {
  if (step < warmup_) return static_cast<double>(step + 1) / static_cast<double>(warmup_);
  const int64_t decayed = step + 1 - warmup_ - stable_steps();
  if (decayed <= 0) return 1.0;
  if (decayed >= decay_) return min_factor_;
  const double progress = static_cast<double>(decayed) / static_cast<double>(decay_);
  return min_factor_ + (1.0 - min_factor_) * decay_curve(decay_type_, progress);
}

StepScalars step_scalars(const Schedule& schedule, double peak_lr, double beta1, double beta2, int64_t step) {
  const auto updates = static_cast<double>(step + 1);
  return {.lr = static_cast<float>(peak_lr * schedule.multiplier(step)),
          .bias_correction1 = static_cast<float>(1.0 - std::pow(beta1, updates)),
          .bias_correction2 = static_cast<float>(1.0 - std::pow(beta2, updates))};
}

}  // namespace titan
