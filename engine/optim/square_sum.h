// The sum of squares of a value, as a node.
#pragma once

#include "engine/program/program.h"

namespace titan {

/// Declares the scratch that the node needs. `x`: [1, n] f32, `sum`: [1, 1] f32.
SquareSum square_sum(Program& program, ValueId x, ValueId sum);

}  // namespace titan
