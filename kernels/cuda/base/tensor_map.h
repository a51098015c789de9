// Tensor maps of bf16 rows, for TMA: made on the host, passed to a kernel as a __grid_constant__ parameter.
#pragma once

#include <cuda.h>

#include <cstdint>

namespace titan::cuda {

/// Rows of a tensor [depth, rows, cols] of bf16, and the box that one copy brings: 64 columns of `box_rows`
/// rows.
struct TensorRows {
  const void* data;  ///< a multiple of 16 bytes
  std::int64_t cols, rows, depth;
  std::int64_t row_bytes, depth_bytes;  ///< from a row to the next, multiples of 16
  int box_rows;                         ///< at most 256
};

inline constexpr int kBoxCols = 64;  ///< 128 bytes: as wide as the swizzle of shared memory

/// Copies of it put 16-byte pieces of a row where a 128-byte swizzle wants them, and zeros for what lies
/// outside of the tensor. Throws CudaError when the driver has no TMA or refuses.
CUtensorMap make_tensor_map(const TensorRows& rows);

}  // namespace titan::cuda
