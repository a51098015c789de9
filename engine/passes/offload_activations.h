// offload_activations: what the backward reads of the forward waits for it in host memory.
//
// Each such value of a block is copied out once it is made, on one lane, and back, on another, while the
// backward works on the block before the one that reads it. Edges bound how far lanes run apart, so that
// device memory holds two blocks' worth on either side: a forward block waits for the copies of the block
// before the last, and a block is copied back only when the backward is done with the block before the one at
// work. What recomputation drops is not there to be copied. Numbers stay the same bits.
#pragma once

#include "engine/program/program.h"

namespace titan {

struct ActivationOffload {
  /// Blocks, from the first, whose activations leave. −1: all but the last one, which the backward reads at
  /// once.
  std::int64_t layers = -1;
  std::int64_t min_bytes = 0;  ///< smaller values stay: a copy costs more than their memory
};

/// Rewrites segments "forward" and "backward"; a program without them is returned as it is.
Program offload_activations(Program program, const ActivationOffload& options);

}  // namespace titan
