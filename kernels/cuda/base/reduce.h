// Sums and maxima over a warp and a block, in a fixed order: the same bits in every run.
#pragma once

#include "kernels/cuda/dialect.h"

namespace titan::cuda {

inline constexpr int kWarpSize = 32;
inline constexpr unsigned kFullWarp = 0xffffffffu;

/// The sum over all 32 lanes, in every lane.
__device__ __forceinline__ float warp_sum(float x) {
#pragma unroll
  for (int bits = kWarpSize / 2; bits > 0; bits /= 2) x += __shfl_xor_sync(kFullWarp, x, bits);
  return x;
}

__device__ __forceinline__ float larger(float a, float b) { return fmaxf(a, b); }
__device__ __forceinline__ unsigned larger(unsigned a, unsigned b) { return a > b ? a : b; }

template <class T>
__device__ __forceinline__ T warp_max(T x) {
#pragma unroll
  for (int bits = kWarpSize / 2; bits > 0; bits /= 2) x = larger(x, __shfl_xor_sync(kFullWarp, x, bits));
  return x;
}

/// The sum over the block, in every thread. `Threads`: the block's, a multiple of 32. `partial`: Threads / 32
/// floats of shared memory that no thread still reads from an earlier call; after a barrier it may be used
/// again.
template <int Threads>
__device__ __forceinline__ float block_sum(float x, float* partial) {
  constexpr int kWarps = Threads / kWarpSize;
  x = warp_sum(x);
  if constexpr (kWarps == 1) return x;
  if (threadIdx.x % kWarpSize == 0) partial[threadIdx.x / kWarpSize] = x;
  __syncthreads();
  float sum = 0;
#pragma unroll
  for (int w = 0; w < kWarps; ++w) sum += partial[w];
  return sum;
}
template <int Threads, class T>
__device__ __forceinline__ T block_max(T x, T* partial) {
  constexpr int kWarps = Threads / kWarpSize;
  x = warp_max(x);
  if constexpr (kWarps == 1) return x;
  if (threadIdx.x % kWarpSize == 0) partial[threadIdx.x / kWarpSize] = x;
  __syncthreads();
  T most = partial[0];
#pragma unroll
  for (int w = 1; w < kWarps; ++w) most = larger(most, partial[w]);
  return most;
}

}  // namespace titan::cuda
