// The operations of a recipe's own step, timed where they stand, beside what the machine could do.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/program/program.h"
#include "kernels/op/backend.h"

namespace titan {

struct Machine;
struct Recipe;

/// All nodes of a step with the same operation and shapes. Sums over the step's `count` of them.
struct OpTime {
  std::string op;     ///< "gemm"
  std::string shape;  ///< "[1024 x 256] x [256 x 704] bf16 NT"
  int count = 0;
  double seconds = 0;  ///< median over steps
  double fastest = 0;  ///< of the steps
  double flops = 0, bytes = 0;
  double floor_seconds = 0;  ///< max(flops / peak, bytes / bandwidth), what a perfect kernel would take
};

/// Sums over nodes with equal operation and shapes, the median over `steps` (times of the unrolled program's
/// nodes, one list a step), the longest first.
std::vector<OpTime> times_by_shape(const Program& program, std::span<const std::vector<CommandTime>> steps,
                                   const Machine& machine);

struct OpsReport {
  std::vector<OpTime> ops;
  double step_seconds = 0;  ///< median, of its nodes alone
  int steps = 0;
  std::string device;  ///< what a measured speed is of: "2 threads", "NVIDIA H200"
  int threads = 0;     ///< of a CPU; 1 on a GPU
  double flops_f32 = 0, flops_bf16 = 0, bytes_per_second = 0;  ///< measured
  double flops_f8 = 0;                                         ///< measured; 0 where it is that of bf16
};

/// Runs the recipe's training step on random tokens, 1 + `steps` times, and measures the machine. Needs no
/// data and no tokenizer. Throws UserError when the recipe cannot run here.
OpsReport bench_ops(const Recipe& recipe, int steps);

/// A line an operation whose name or shape holds `filter`, then the measured speeds. Rates are those of the
/// fastest step.
std::string ops_table(const OpsReport& report, std::string_view filter);
std::string ops_json(const OpsReport& report, std::string_view filter);

}  // namespace titan
