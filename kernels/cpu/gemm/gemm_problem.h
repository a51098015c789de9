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
};

/// c [m, n] (= or +=) op(a) [m, k] · op(b) [k, n]; a and b share a dtype.
struct GemmProblem {
  std::int64_t m = 0, n = 0, k = 0;
  MatrixView a = {}, b = {};
  void* c = nullptr;
  std::int64_t c_pitch = 0;
  DType input = DType::f32, output = DType::f32;
  bool add = false;  ///< onto c
};

}  // namespace titan::cpu
