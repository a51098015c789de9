// Where the time of a program goes: measured by a backend, or predicted from the costs of its nodes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/program/program.h"
#include "kernels/op/backend.h"

namespace titan {

struct Machine;

/// When each node of the unrolled program would run if every one took its cost (kernels/cost): lanes run in
/// order, and wait where the program says so.
std::vector<CommandTime> predict(const Program& program, const Machine& machine);

/// Seconds that nodes of other phases started later than they could have without those of `phase`, on any
/// lane.
double held_by(const Program& program, std::span<const CommandTime> times, Phase phase);

/// One run of a program's timeline, every micro-batch counted; seconds are the costs' sum on the busiest
/// lane.
struct ProgramTotals {
  std::int64_t nodes = 0, flops = 0;
  double seconds = 0;
  std::int64_t gemm_flops_f8 = 0, gemm_flops_bf16 = 0,
               gemm_flops_f32 = 0;  ///< of matrix products, by their inputs
};
ProgramTotals totals(const Program& program, const Machine& machine);

/// From the beginning of the program to the end of its last node.
double duration_of(std::span<const CommandTime> times);

/// All nodes of one operation.
struct OpShare {
  std::string op;
  int count = 0;
  double seconds = 0;  ///< on its lane, waits left out
  double flops = 0, bytes = 0;
  double floor_seconds = 0;  ///< what the cost model asks
};

/// By operation, the longest first.
std::vector<OpShare> share_by_op(const Program& program, std::span<const CommandTime> times,
                                 const Machine& machine);

/// A table of them: share of the step, time, count, GFLOP/s, GB/s.
std::string share_table(std::span<const OpShare> shares, double step_seconds);

}  // namespace titan
