// What a .cu file of titan is written in. nvcc compiles it for GPUs; an ordinary C++ compiler compiles the
// same file for the host, where kernels/cuda/host runs it. What the two do not share goes through the names
// below:
//
//   TITAN_SHARED(float, tile, 32 * 33);              __shared__ float tile[32 * 33], 16-byte aligned
//   float* buffer = dynamic_shared<float>();         extern __shared__, 16-byte aligned
//   const float4 v = load_vector<float4>(p);         one access, aligned; checked on the host
//   launch(kernel<float>, grid, block, shared_bytes, stream, arguments...);
//
// Use the barriers, shuffles and integer atomics declared here and no others; no float atomics, whose sums
// would depend on timing. PTX belongs into small functions with a host body.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace titan::cuda {

/// Unasked, a block has 48 KiB of shared memory, its static arrays included, of which a launch knows nothing:
/// so whatever dynamic shared memory there is, is asked for.
template <class... Parameters>
void ask_for_shared(void (*kernel)(Parameters...), std::size_t bytes) {
  if (bytes > 0)
    cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel), cudaFuncAttributeMaxDynamicSharedMemorySize,
                         static_cast<int>(bytes));
}

/// What the parameters of a kernel may take.
inline constexpr std::size_t kMaxParameterBytes = 4096;
template <class... Parameters>
inline constexpr bool kParametersFit =
    (sizeof(Parameters) + ... + 0) + 16 * sizeof...(Parameters) <= kMaxParameterBytes;

}  // namespace titan::cuda

#ifdef __CUDACC__

namespace titan::cuda {

#define TITAN_SHARED(type, name, count) __shared__ __align__(16) type name[count]

/// Puts the kernel into the stream. Errors of the launch are cudaGetLastError's, as are those of the kernel
/// later.
template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, std::size_t shared_bytes,
            cudaStream_t stream, Arguments... arguments) {
  static_assert(kParametersFit<Parameters...>);
  ask_for_shared(kernel, shared_bytes);
  kernel<<<grid, block, shared_bytes, stream>>>(static_cast<Parameters>(arguments)...);
}

/// The shared memory that the launch asked for.
template <class T>
__device__ __forceinline__ T* dynamic_shared() {
  extern __shared__ __align__(16) unsigned char titan_shared_bytes[];
  return reinterpret_cast<T*>(titan_shared_bytes);
}

template <class Vector>
__device__ __forceinline__ Vector load_vector(const void* p) {
  return *static_cast<const Vector*>(p);
}
template <class Vector>
__device__ __forceinline__ void store_vector(void* p, const Vector& v) {
  *static_cast<Vector*>(p) = v;
}

}  // namespace titan::cuda

#else

#include <bit>
#include <cmath>
#include <tuple>

#include "kernels/cuda/host/grid.h"
#include "kernels/cuda/host/streams.h"

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __grid_constant__
#define __restrict__ __restrict

namespace titan::cuda {

using dim3 = host::Dim3;

#define threadIdx (::titan::cuda::host::thread_index())
#define blockIdx (::titan::cuda::host::block_index())
#define blockDim (::titan::cuda::host::block_size())
#define gridDim (::titan::cuda::host::grid_size())

#define TITAN_SHARED(type, name, count) \
  auto& name = *static_cast<type(*)[count]>(::titan::cuda::host::shared_array(sizeof(type[count])))

/// Kernel parameters are copied when the launch is enqueued, as on the device.
template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, std::size_t shared_bytes,
            cudaStream_t stream, Arguments... arguments) {
  static_assert(kParametersFit<Parameters...>);
  ask_for_shared(kernel, shared_bytes);
  const host::SharedRequest shared{shared_bytes, host::asked_shared(reinterpret_cast<const void*>(kernel))};
  host::enqueue(stream, [=, parameters = std::tuple<Parameters...>(static_cast<Parameters>(arguments)...)] {
    host::launch(grid, block, shared, [&] { std::apply(kernel, parameters); });
  });
}

template <class T>
T* dynamic_shared() {
  return static_cast<T*>(host::dynamic_shared());
}

template <class Vector>
Vector load_vector(const void* p, host::Site site = host::Site::current()) {
  host::check_aligned(p, alignof(Vector), site);
  Vector v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
template <class Vector>
void store_vector(void* p, const Vector& v, host::Site site = host::Site::current()) {
  host::check_aligned(p, alignof(Vector), site);
  std::memcpy(p, &v, sizeof v);
}

inline void __syncthreads(host::Site site = host::Site::current()) { host::barrier(site); }

inline void __syncwarp(unsigned mask = 0xffffffffu, host::Site site = host::Site::current()) {
  std::byte all[32][16];
  const char none = 0;
  host::exchange(mask, &none, 0, all, site);
}

template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32, host::Site site = host::Site::current()) {
  static_assert(sizeof(T) <= 16);
  std::byte all[32][16];
  host::exchange(mask, &value, sizeof value, all, site);
  const int lane = host::lane(), from = (lane & ~(width - 1)) | (source & (width - 1));
  if ((mask >> from & 1u) == 0) return value;  // undefined on the device
  std::memcpy(&value, all[from], sizeof value);
  return value;
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int bits, int width = 32, host::Site site = host::Site::current()) {
  return __shfl_sync(mask, value, host::lane() ^ bits, width, site);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, int by, int width = 32, host::Site site = host::Site::current()) {
  const int lane = host::lane();
  return __shfl_sync(mask, value, (lane & (width - 1)) + by < width ? lane + by : lane, width, site);
}
inline unsigned __ballot_sync(unsigned mask, int predicate, host::Site site = host::Site::current()) {
  std::byte all[32][16];
  host::exchange(mask, &predicate, sizeof predicate, all, site);
  unsigned votes = 0;
  for (int l = 0; l < 32; ++l) {
    int vote = 0;
    if (mask >> l & 1u) std::memcpy(&vote, all[l], sizeof vote);
    votes |= (vote != 0 ? 1u : 0u) << l;
  }
  return votes;
}

template <class T>
T atomicAdd(T* p, T value) {
  static_assert(std::is_integral_v<T>, "float sums must not depend on timing");
  return __atomic_fetch_add(p, value, __ATOMIC_RELAXED);
}
inline unsigned atomicMax(unsigned* p, unsigned value) {
  unsigned old = __atomic_load_n(p, __ATOMIC_RELAXED);
  while (old < value &&
         !__atomic_compare_exchange_n(p, &old, value, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
  return old;
}

inline unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }
inline float __uint_as_float(unsigned x) { return std::bit_cast<float>(x); }
inline float rsqrtf(float x) { return 1.0f / std::sqrt(x); }

}  // namespace titan::cuda

#endif
