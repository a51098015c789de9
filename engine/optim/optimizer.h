// The optimizer as a segment of the step program: global norm, clip, AdamW over the buckets.
#pragma once

#include "engine/program/program.h"

namespace titan {

struct OptimizerSettings {
  float beta1 = 0.9f, beta2 = 0.95f, epsilon = 1e-8f, weight_decay = 0.1f;
  float max_norm = 1;  ///< global L2 norm of the gradients; <= 0: no clipping
};

/// Appends segment "optimizer" and its timeline step. Declares the input hyper [1, 3] f32 (lr, 1 − β1^t, 1 −
/// β2^t), the outputs grad_norm [1, 1] and stop [1, 1] i32 (persistent: once a loss or norm is not finite,
/// every later update is a no-op).
void append_optimizer(Program& program, const OptimizerSettings& settings);

}  // namespace titan
