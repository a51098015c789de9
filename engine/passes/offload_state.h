// offload_state: keeps what lasts from step to step, f32 master weights and both moments, in host memory.
//
// The CPU updates them, on the host lane, from copies of the gradients. Weights reach the device in the
// compute dtype: cast on the host, then copied. Sums of squares, the norm and the clip factor stay on the
// device, over its gradients; the updates read copies of the factor and of the stop flag. Numbers are those
// of the program that this pass is given, bit for bit.
#pragma once

#include "engine/program/program.h"

namespace titan {

/// A program whose weights are apart from their master buckets (ShardOptions::weights_apart), its optimizer
/// appended. Gradients are copied in the order in which they become final, and updated in that order.
///
/// With one micro-batch a bucket's norm and copy come right after its last gradient node, so that its device
/// memory is free again when the next bucket but one begins, which waits for that. With more, gradients
/// accumulate on the device, whole: sums on the host would cost a transfer each micro-batch, and the norm
/// needs the sum.
///
/// Weights that live one step are cast just ahead of their copies, two buckets at a time in host memory.
/// Those that live one use are cast once a step, and each is copied while the bucket before it is in use.
Program offload_state(Program program);

}  // namespace titan
