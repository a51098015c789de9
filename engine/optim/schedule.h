// The learning rate over a run, warmup-stable-decay as TorchTitan v0.2 defines it, and what AdamW needs to
// know about a step. Steps count from 0 here: the first optimizer step is step 0.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace titan {

enum class Decay { linear, sqrt, cosine };

/// Reads `lr_scheduler.decay_type`; nullopt for any other word.
std::optional<Decay> parse_decay(std::string_view name);

struct ScheduleOptions {
  int64_t training_steps = 10000;           // training.steps
  std::optional<int64_t> total_steps = {};  // lr_scheduler.total_steps: T; not given: training_steps
  int64_t warmup_steps = 200;               // W
  std::optional<double> decay_ratio = {};   // D = round(T * ratio), half to even; not given: D = T - W
  Decay decay_type = Decay::linear;
  double min_lr_factor = 0.0;  // the decay ends here, as a fraction of the peak
};

/// With T steps in all, S = T + 1 - W - D. The multiplier of step s is (s + 1) / W for s < W, then 1 for S
/// steps, then min + (1 - min) f(p) with p = (s + 1 - W - S) / D and f one of 1 - p, 1 - sqrt(p), (1 + cos(pi
/// p)) / 2. The one in S is a virtual last step: it keeps step T - 1 above the minimum. Steps from T on stay
/// at the minimum.
class Schedule {
 public:
  /// Throws UsageError for a value no schedule can have: T < 1, W < 0, a decay_ratio or min_lr_factor outside
  /// [0, 1].
  explicit Schedule(const ScheduleOptions& options);

  /// Of the peak learning rate; in [0, 1].
  double multiplier(int64_t step) const;

  int64_t warmup_steps() const { return warmup_; }
  int64_t stable_steps() const { return total_ + 1 - warmup_ - decay_; }
  int64_t decay_steps() const { return decay_; }
  int64_t total_steps() const { return total_; }

  /// What had to be adjusted to make the phases fit, one sentence each, for the log.
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  int64_t total_;
  int64_t warmup_;
  int64_t decay_ = 0;
  Decay decay_type_;
  double min_factor_;
  std::vector<std::string> warnings_;
};

/// The per-step inputs of AdamW, computed in double and rounded once.
struct StepScalars {
  float lr;
  float bias_correction1;  // 1 - beta1^(step + 1)
  float bias_correction2;  // 1 - beta2^(step + 1); its square root is the kernel's business
};

StepScalars step_scalars(const Schedule& schedule, double peak_lr, double beta1, double beta2, int64_t step);

}  // namespace titan
