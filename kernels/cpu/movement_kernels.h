// Inner loops of the operations that move data, compiled once for each instruction set (movement_kernels.cc).
#pragma once

#include <cstdint>

#include "kernels/base/dtype.h"
#include "kernels/cpu/base/isa.h"

namespace titan::cpu {

/// A row of n elements of f32 or bf16 each.
struct MovementKernels {
  /// y = x, rounded to nearest even.
  void (*convert)(const void* x, DType x_dtype, void* y, DType y_dtype, std::int64_t n);
  /// y = a + b in f32, rounded once. y may be a or b.
  void (*add)(const void* a, DType a_dtype, const void* b, DType b_dtype, void* y, DType y_dtype,
              std::int64_t n);
};

namespace baseline {
extern const MovementKernels kMovementKernels;
}
namespace avx2 {
extern const MovementKernels kMovementKernels;
}
namespace avx512 {
extern const MovementKernels kMovementKernels;
}

}  // namespace titan::cpu
