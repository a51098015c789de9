// recompute (activation checkpointing): keeps fewer activations of the forward and computes them again in the
// backward.
//
// The pass clones forward nodes into the backward segment, just before the first backward node that needs
// their result. Clones run the same kernels on the same inputs, so the losses are the same bits in every
// mode. Nodes that update state or accumulate are never cloned, and what Amax finds is always kept. What a
// block receives from the block before it is always kept.
#pragma once

#include <string>
#include <vector>

#include "engine/program/program.h"

namespace titan {

struct Machine;

struct RecomputePolicy {
  enum class Mode {
    none,         ///< keep everything the backward reads
    full,         ///< keep only each block's input
    every_layer,  ///< full in every n-th block (the n-th, 2n-th, …), none in the others
    selective,  ///< per op: keep attention, the rotated q|k|v and the gate|up product; compute norms, o_proj
                ///< and SwiGLU again
    memory_budget,  ///< at most full + budget · (none − full) bytes kept, in the fewest predicted seconds
  };
  Mode mode = Mode::none;
  int every = 1;
  double budget = 1;
};

/// TorchTitan's per-op policy saves every second matrix product of a block: wq, wv, w1 and w2 of wq wk wv wo
/// w1 w3 w2. Here q|k|v and gate|up are one product each, so `selective` keeps both halves of what TorchTitan
/// keeps one half of, and the last product (down) is never needed again. Reads `activation_checkpoint.mode`
/// and its option keys. Throws UsageError for an unknown mode or option.
RecomputePolicy recompute_policy(const std::string& mode, const std::string& selective_option,
                                 double memory_budget);

/// Rewrites segments "forward" and "backward"; a program without them is returned as it is.
Program recompute(Program program, const RecomputePolicy& policy, const Machine& machine);

/// Bytes of forward activations that the backward segment reads: what the policy chooses from.
std::int64_t saved_activation_bytes(const Program& program);

}  // namespace titan
