// Sums in f64 over a block, in a fixed order.
#pragma once

#include "kernels/cuda/base/reduce.h"

namespace titan::cuda {

/// The sum over the block, in every thread. `Threads`: the block's, a multiple of 32. `warps`: Threads / 32
/// doubles of shared memory.
template <int Threads>
__device__ __forceinline__ double block_sum_f64(double x, double* warps) {
#pragma unroll
  for (int bits = kWarpSize / 2; bits > 0; bits /= 2) x += __shfl_xor_sync(kFullWarp, x, bits);
  if (threadIdx.x % kWarpSize == 0) warps[threadIdx.x / kWarpSize] = x;
  __syncthreads();
  double sum = 0;
#pragma unroll
  for (int w = 0; w < Threads / kWarpSize; ++w) sum += warps[w];
  return sum;
}

}  // namespace titan::cuda
