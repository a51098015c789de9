// The largest magnitude of what a kernel reads or writes, found on the way. Each thread keeps its own, and a
// block's goes into `amax` by one atomic maximum of integers: blocks come in any order, a maximum does not
// notice.
#pragma once

#include "kernels/cuda/base/reduce.h"
#include "kernels/cuda/base/vector.h"

namespace titan::cuda {

/// Bits of |x|: as integers they order magnitudes, infinities and NaN upwards.
__device__ __forceinline__ unsigned magnitude(float x) { return __float_as_uint(x) & 0x7fffffffu; }

/// Of a magnitude that is stored as a T.
template <class T>
__device__ __forceinline__ unsigned rounded_magnitude(unsigned bits) {
  return magnitude(widen(narrow<T>(__uint_as_float(bits))));
}

/// most = the largest of it and of the magnitudes of x as a T holds them. Rounding keeps their order, and NaN
/// the largest: one is rounded, not N.
template <class T, int N>
__device__ __forceinline__ void keep_largest(const float (&x)[N], unsigned& most) {
  unsigned largest = 0;
#pragma unroll
  for (int i = 0; i < N; ++i) largest = larger(largest, magnitude(x[i]));
  most = larger(most, rounded_magnitude<T>(largest));
}

/// amax = the larger of it and the block's largest. `Threads`: the block's, all of which must come here.
template <int Threads>
__device__ __forceinline__ void raise_amax(unsigned most, unsigned* amax) {
  TITAN_SHARED(unsigned, partial, Threads / kWarpSize);
  most = block_max<Threads>(most, partial);
  if (threadIdx.x == 0) atomicMax(amax, most);
}

/// On the host: 0 in the stream, for kernels to raise; null if the operation has no amax.
inline unsigned* start_amax(const Context& context, const Operand& amax) {
  if (amax) cudaMemsetAsync(context.data(amax), 0, sizeof(float), context.stream);
  return context.data_as<unsigned>(amax);
}

}  // namespace titan::cuda
