// Norms of every parameter's gradient and weights, as nodes of a training program.
#pragma once

#include "engine/program/program.h"

namespace titan {

/// Appends segment "parameter_norms" and its timeline step: before the optimizer's, so that gradients are
/// those of the whole step before clipping, and weights those that made them. Needs buckets with gradients.
/// Declares the outputs gradient_square_sums and weight_square_sums, [1, parameters] f32 in the order of
/// Program::parameters.
void append_parameter_norms(Program& program);

}  // namespace titan
