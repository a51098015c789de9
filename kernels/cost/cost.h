// What an operation costs on a machine: a roofline. It is a lower bound that a perfect kernel would reach;
// what passes need is the order between alternatives, and `--perf` how far a kernel is from it.
#pragma once

#include <cstdint>

#include "kernels/cost/machine.h"
#include "kernels/op/op.h"

namespace titan {

struct Cost {
  /// Floating-point operations; a fused multiply-add is two, an exponential or a square root one.
  std::int64_t flops = 0;
  /// Main-memory traffic: every operand once. An accumulating operand is read and written; scratch is free.
  std::int64_t bytes_read = 0, bytes_written = 0;
  /// max(flops / peak, bytes / bandwidth) + launch; for a collective, also bytes on the wire / link +
  /// latency.
  double seconds = 0;
};

Cost cost(const Op& op, const Machine& machine);

/// (query, key) pairs that causality leaves of q_length × k_length when the last query sees the last key:
/// half of the square when the lengths are equal. An upper bound where documents are masked; the average over
/// the ring for the pieces of a context-parallel attention.
std::int64_t causal_pairs(std::int64_t q_length, std::int64_t k_length);

}  // namespace titan
