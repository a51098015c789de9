// A matrix product with its addresses resolved: what the engines of this folder compute.
#pragma once

#include <cstdint>

#include "kernels/base/dtype.h"

namespace titan::cpu {

/// A row-major matrix in memory; row r starts r·pitch elements after `data`.
struct MatrixView {
  const void* data = nullptr;
  std::int64_t pitch = 0;
  bool transposed = false;  ///< the product uses the transpose of what is stored
  /// Not null: elements are bytes, and this table of 256 has the bf16 that each stands for (float8_codes.h).
  const std::uint16_t* codes = nullptr;
};

/// What sums are multiplied by: rows[i] · columns[j], or rows[0] · columns[0] unless there is one for `each`.
struct GemmScaling {
  const float *rows = nullptr, *columns = nullptr;  ///< null: by nothing
  bool each = false;
};

/// c [m, n] (= or +=) op(a) [m, k] · op(b) [k, n]; a and b share a dtype.
struct GemmProblem {
  std::int64_t m = 0, n = 0, k = 0;
  MatrixView a = {}, b = {};
  void* c = nullptr;
  std::int64_t c_pitch = 0;
  DType input = DType::f32, output = DType::f32;  ///< input: what is multiplied, bf16 for bytes
  bool add = false;                               ///< onto c
  GemmScaling scaling = {};                       ///< packed GEMM only, as are bytes; n a multiple of 16
};

}  // namespace titan::cpu
