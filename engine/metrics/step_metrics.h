// What is known about a training step when it is logged: one struct that every output (step line, JSON lines,
// TensorBoard) reads. Throughput is per device; times are seconds.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace titan {

/// L2 norms of one parameter: of its gradient before clipping, and of its weights before the update.
struct ParameterNorms {
  std::string name;
  double gradient = 0.0;
  double weight = 0.0;
};

struct StepMetrics {
  int64_t step = 0;                             // counts from 1
  double loss = 0.0;                            // sum over valid tokens / valid tokens, over all ranks
  std::optional<double> max_loss = {};          // the largest rank's, where it is known
  double grad_norm = 0.0;                       // global L2 norm before clipping
  double lr = 0.0;                              // that this step's update used
  int64_t tokens_seen = 0;                      // since step 1, over all ranks
  int64_t clipped_steps = 0;                    // since the last log (or the start): gradients were clipped
  int64_t clipped_steps_total = 0;              // since step 1
  int64_t memory_bytes = 0;                     // peak on the device since the last log
  std::optional<double> memory_percent = {};    // of the device's capacity, 0 to 100
  std::optional<double> beside_arena_gib = {};  // of a GPU: driver, libraries, graphs, other processes
  double tps = 0.0;                             // tokens a second and device
  double tflops = 0.0;                          // model FLOPs a second and device, 1e12
  std::optional<double> mfu = {};             // percent of the device's dense bf16 peak; unknown device: none
  std::optional<double> speed_of_light = {};  // percent: the step's GEMMs at their measured peak / the step
  double end_to_end_seconds = 0.0;            // a step, mean since the last log
  double data_loading_seconds = 0.0;          // of those, waiting for data
  std::vector<ParameterNorms> norms = {};     // with metrics.log_parameter_norms
};

struct ValidationMetrics {
  int64_t step = 0;
  double loss = 0.0;
  int64_t memory_bytes = 0;
  std::optional<double> memory_percent = {};
  double tps = 0.0;
};

struct Scalar {
  std::string tag;
  double value;
};

/// The metrics under TorchTitan's tags (`loss_metrics/global_avg_loss`, `throughput(tps)`, ...). Unknown
/// values are left out. Norms of parameters are `gradient_norm/NAME` and `weight_norm/NAME`, with the Hugging
/// Face name. `memory/max_active`, `num_alloc_retries` and `num_ooms` have no counterpart: all
/// memory is one arena.
std::vector<Scalar> scalars(const StepMetrics& metrics);
std::vector<Scalar> scalars(const ValidationMetrics& metrics);

}  // namespace titan
