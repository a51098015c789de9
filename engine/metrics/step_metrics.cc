#include "engine/metrics/step_metrics.h"

namespace titan {
namespace {

constexpr double kGib = 1024.0 * 1024.0 * 1024.0;

void add(std::vector<Scalar>& out, const char* tag, const std::optional<double>& value) {
  if (value) out.push_back({tag, *value});
}

}  // namespace

std::vector<Scalar> scalars(const StepMetrics& m) {
  std::vector<Scalar> out = {
      {"loss_metrics/global_avg_loss", m.loss},
      {"grad_norm", m.grad_norm},
      {"throughput(tps)", m.tps},
      {"tflops", m.tflops},
      {"time_metrics/end_to_end(s)", m.end_to_end_seconds},
      {"time_metrics/data_loading(s)", m.data_loading_seconds},
      {"memory/max_reserved(GiB)", static_cast<double>(m.memory_bytes) / kGib},
      {"n_tokens_seen", static_cast<double>(m.tokens_seen)},
      {"clipped_steps", static_cast<double>(m.clipped_steps)},
      {"clipped_steps_total", static_cast<double>(m.clipped_steps_total)},
      {"lr", m.lr},
  };
  if (m.end_to_end_seconds > 0)
    out.push_back({"time_metrics/data_loading(%)", 100.0 * m.data_loading_seconds / m.end_to_end_seconds});
  add(out, "loss_metrics/global_max_loss", m.max_loss);
  add(out, "memory/max_reserved(%)", m.memory_percent);
  add(out, "memory/beside_arena(GiB)", m.beside_arena_gib);
  add(out, "mfu(%)", m.mfu);
  add(out, "speed_of_light(%)", m.speed_of_light);
  for (const ParameterNorms& norms : m.norms) {
    out.push_back({"gradient_norm/" + norms.name, norms.gradient});
    out.push_back({"weight_norm/" + norms.name, norms.weight});
  }
  return out;
}

std::vector<Scalar> scalars(const ValidationMetrics& m) {
  std::vector<Scalar> out = {
      {"validation_metrics/loss", m.loss},
      {"validation_metrics/throughput(tps)", m.tps},
      {"validation_metrics/memory/max_reserved(GiB)", static_cast<double>(m.memory_bytes) / kGib},
  };
  add(out, "validation_metrics/memory/max_reserved(%)", m.memory_percent);
  return out;
}

}  // namespace titan
