#include "engine/metrics/metrics_logger.h"

#include <spdlog/spdlog.h>

#include "engine/metrics/clock.h"
#include "engine/metrics/jsonl.h"
#include "engine/metrics/step_line.h"
#include "engine/metrics/step_metrics.h"
#include "engine/metrics/tensorboard.h"
#include "kernels/base/error.h"

namespace titan {

MetricsLogger::MetricsLogger(const MetricsOptions& options)
    : step_lines_(options.step_lines), color_(options.color) {
  const auto own_folder = [&](const std::filesystem::path& folder) {
    return options.rank ? folder / fmt::format("rank_{}", *options.rank) : folder;
  };
  if (options.jsonl)
    attempt(jsonl_warned_, [&] {
      jsonl_ = std::make_unique<JsonlWriter>(own_folder(options.dump_folder) / "metrics.jsonl",
                                             options.resumed_step);
    });
  if (options.tensorboard)
    attempt(tensorboard_warned_, [&] {
      const std::string run = run_folder_name(unix_seconds());
      const auto folder = own_folder(options.dump_folder / options.save_tb_folder / run);
      tensorboard_ = std::make_unique<TensorboardWriter>(folder);
      tensorboard_folder_ = folder;
    });
}

MetricsLogger::~MetricsLogger() = default;

void MetricsLogger::log(const StepMetrics& metrics) {
  if (step_lines_) spdlog::info("{}", step_line(metrics, color_));
  write_files(metrics);
}

void MetricsLogger::log(const ValidationMetrics& metrics) {
  if (step_lines_) spdlog::info("{}", validation_line(metrics, color_));
  write_files(metrics);
}

template <class Metrics>
void MetricsLogger::write_files(const Metrics& metrics) {
  if (jsonl_) attempt(jsonl_warned_, [&] { jsonl_->write(metrics); });
  if (tensorboard_)
    attempt(tensorboard_warned_, [&] { tensorboard_->write(metrics.step, scalars(metrics)); });
}

template <class Action>
void MetricsLogger::attempt(bool& warned, Action action) {
  try {
    action();
  } catch (const UserError& error) {
    if (!warned) spdlog::warn("Metrics are incomplete: {}. Training goes on.", error.what());
    warned = true;
  }
}

}  // namespace titan
