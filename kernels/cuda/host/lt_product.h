// The arithmetic of cublasLtMatmul.
#pragma once

#include <library_types.h>

#include <cstdint>

namespace titan::cuda::host {

/// A matrix in memory: element (r, c) is number r·row_stride + c·col_stride.
struct StridedMatrix {
  const void* data;
  cudaDataType type;
  std::int64_t row_stride, col_stride;
};

std::int64_t bytes_of(cudaDataType type);
float load(cudaDataType type, const void* data, std::int64_t index);
/// Rounds to f32 or bf16.
void store(cudaDataType type, void* data, std::int64_t index, float x);

/// sums[i + m·j] = Σ_l a(i, l)·b(l, j) in f32, l ascending from 0 to k: the same bits on every processor and
/// at any number of threads. a is m by k, b k by n.
void multiply(const StridedMatrix& a, const StridedMatrix& b, std::int64_t m, std::int64_t n, std::int64_t k,
              float* sums);

}  // namespace titan::cuda::host
