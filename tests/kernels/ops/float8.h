// 8-bit floats as double-precision references have them, apart from kernels/base/float8.h.
#pragma once

#include "tests/kernels/ops/op_table.h"

namespace titan::op_test {

/// The factor of a row of its own (Quantize without amax, ops.h).
float row_factor(DType dtype, const Matrix& x, std::int64_t row);
/// The value of x · factor in 8 bits.
double quantized(DType dtype, double x, float factor);

}  // namespace titan::op_test
