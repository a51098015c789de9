// How elementwise kernels walk over matrices: a thread takes N neighbours of a row, in accesses of 16 bytes
// where all rows start at multiples of that; the end of a row may be shorter. Where every operand is
// contiguous the matrix is one long row.
#pragma once

#include <algorithm>
#include <initializer_list>

#include "kernels/cuda/base/vector.h"

namespace titan::cuda {

inline constexpr int kRowThreads = 256;

struct Rows {
  std::int64_t rows, cols;
};

/// Up to N elements of a row; none behind the end of the matrix.
struct Part {
  std::int64_t row, col;
  int count;
};

/// This thread's.
template <int N>
__device__ __forceinline__ Part part_of(const Rows& rows) {
  const std::int64_t index = std::int64_t{blockIdx.x} * kRowThreads + threadIdx.x;
  Part part{0, index * N, 0};
  if (rows.rows != 1) {
    const std::int64_t parts = (rows.cols + N - 1) / N;
    part.row = index / parts;
    part.col = index % parts * N;
  }
  const std::int64_t left = part.row < rows.rows ? rows.cols - part.col : 0;
  part.count = left < N ? (left > 0 ? static_cast<int>(left) : 0) : N;
  return part;
}

/// The first `count` elements; the others stay what they are.
template <int N, class T>
__device__ __forceinline__ void load_part(const T* p, float (&x)[N], int count) {
  if (count == N) {
    load(p, x);
    return;
  }
#pragma unroll
  for (int i = 0; i < N; ++i)
    if (i < count) x[i] = widen(p[i]);
}
template <int N, class T>
__device__ __forceinline__ void store_part(T* p, const float (&x)[N], int count) {
  if (count == N) {
    store(p, x);
    return;
  }
#pragma unroll
  for (int i = 0; i < N; ++i)
    if (i < count) p[i] = narrow<T>(x[i]);
}

// --- On the host: how to launch
// -----------------------------------------------------------------------------------

/// The rows of operands of one shape.
inline Rows rows_of(std::initializer_list<const Operand*> operands) {
  const Operand& first = **operands.begin();
  const bool flat =
      std::all_of(operands.begin(), operands.end(), [](const Operand* o) { return o->contiguous(); });
  return flat ? Rows{1, first.elements()} : Rows{first.rows, first.cols};
}

/// Whether all rows start at multiples of 16 bytes.
inline bool rows_are_aligned(const Context& context, const Rows& rows,
                             std::initializer_list<const Operand*> operands) {
  return std::all_of(operands.begin(), operands.end(), [&](const Operand* o) {
    return reinterpret_cast<std::uintptr_t>(context.data(*o)) % kVectorBytes == 0 &&
           (rows.rows == 1 || o->pitch * size_of(o->dtype) % kVectorBytes == 0);
  });
}

/// Calls f(Int<N>{}, grid) with N = `Full` where all rows are aligned, else 1; not at all when there is
/// nothing to do.
template <int Full, class F>
void with_parts(const Context& context, const Rows& rows, std::initializer_list<const Operand*> operands,
                F f) {
  if (rows.rows * rows.cols == 0) return;
  const auto grid = [&](int n) {
    return dim3(static_cast<unsigned>(ceil_div(rows.rows * ceil_div(rows.cols, n), kRowThreads)));
  };
  if (rows_are_aligned(context, rows, operands))
    f(Int<Full>{}, grid(Full));
  else
    f(Int<1>{}, grid(1));
}

}  // namespace titan::cuda
