// Sums of squares for the global norm, and the scale that clips it.
//
// SquareSum reads x once, 4 bytes an element: one block of threads for each of the op's fixed blocks of x
// (ops.h), then one that adds their sums in order. A thread adds up to 128 squares in f32, all else is f64:
// the error does not grow with n. Whatever the alignment and the GPU, the bits are the same.
#include "kernels/cuda/base/run.h"
#include "kernels/cuda/base/vector.h"
#include "kernels/cuda/optimizer/block_sum.h"

namespace titan::cuda {
namespace {

constexpr int kThreads = 512, kFinalThreads = 256, kWidth = kVectorOf<float>;

/// This thread's part of the squares of x[0..n), n <= kSquareSumUnit.
template <bool Aligned>
__device__ __forceinline__ double unit_sum(const float* x, int n) {
  float sums[kWidth] = {}, v[kWidth];
  int i = static_cast<int>(threadIdx.x) * kWidth;
#pragma unroll 4
  for (; i + kWidth <= n; i += kThreads * kWidth) {
    if constexpr (Aligned) {
      load(x + i, v);
    } else {
#pragma unroll
      for (int j = 0; j < kWidth; ++j) v[j] = x[i + j];
    }
#pragma unroll
    for (int j = 0; j < kWidth; ++j) sums[j] += v[j] * v[j];
  }
  for (int j = 0; i + j < n; ++j) sums[0] += x[i + j] * x[i + j];  // the end: one thread, up to three
  return double{sums[0] + sums[1]} + double{sums[2] + sums[3]};
}

template <bool Aligned>
__global__ void __launch_bounds__(kThreads)
    square_sums(const float* x, std::int64_t n, std::int64_t block, double* partial) {
  TITAN_SHARED(double, warps, kThreads / kWarpSize);
  const std::int64_t begin = blockIdx.x * block, end = begin + block < n ? begin + block : n;
  double sum = 0;
  for (std::int64_t unit = begin; unit < end; unit += kSquareSumUnit)
    sum += unit_sum<Aligned>(x + unit,
                             static_cast<int>(end - unit < kSquareSumUnit ? end - unit : kSquareSumUnit));
  sum = block_sum_f64<kThreads>(sum, warps);
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

__global__ void __launch_bounds__(kFinalThreads) add_partial(const double* partial, int count, float* sum) {
  TITAN_SHARED(double, warps, kFinalThreads / kWarpSize);
  double total = 0;
  for (int i = static_cast<int>(threadIdx.x); i < count; i += kFinalThreads) total += partial[i];
  total = block_sum_f64<kFinalThreads>(total, warps);
  if (threadIdx.x == 0) *sum = static_cast<float>(total);
}

}  // namespace

void run(const SquareSum& op, const Context& context) {
  const std::int64_t n = op.x.elements(), blocks = op.partial.cols,
                     block = ceil_div(ceil_div(n, kSquareSumUnit), blocks) * kSquareSumUnit;
  const float* x = context.data_as<float>(op.x);
  double* partial = context.data_as<double>(op.partial);
  const bool aligned = reinterpret_cast<std::uintptr_t>(x) % kVectorBytes == 0;
  launch(aligned ? square_sums<true> : square_sums<false>, dim3(static_cast<unsigned>(blocks)),
         dim3(kThreads), 0, context.stream, x, n, block, partial);
  launch(add_partial, dim3(1), dim3(kFinalThreads), 0, context.stream, partial, blocks,
         context.data_as<float>(op.sum));
}

}  // namespace titan::cuda
