// What operations on 8-bit floats require of their operands: the common ground of all backends.
#pragma once

#include <string>

#include "kernels/op/op.h"

namespace titan {

/// Sizes of an 8-bit GEMM are multiples of this: 16 bytes.
inline constexpr std::int64_t kFloat8Multiple = 16;

/// Why an operation cannot run on its 8-bit operands ("the sum runs over 40 elements, not a multiple of 16");
/// empty when it can, or has none.
std::string float8_problem(const Op& op);

}  // namespace titan
