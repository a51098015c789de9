// Elements in memory as floats in registers, N at a time in accesses of up to 16 bytes.
#pragma once

#include <initializer_list>

#include "kernels/base/bf16.h"
#include "kernels/cuda/base/context.h"
#include "kernels/cuda/dialect.h"

namespace titan::cuda {

/// The unit of memory accesses, in bytes.
inline constexpr int kVectorBytes = 16;

/// Elements of T in one access.
template <class T>
inline constexpr int kVectorOf = kVectorBytes / static_cast<int>(sizeof(T));

__device__ __forceinline__ float widen(float x) { return x; }
__device__ __forceinline__ float widen(bf16 x) {
  return __uint_as_float(static_cast<unsigned>(x.bits) << 16);
}

/// x rounded to the nearest bf16, ties to even; lower half of the result. NaN stays NaN.
__device__ __forceinline__ unsigned bf16_bits(float x) {
#ifdef __CUDA_ARCH__
  unsigned short bits;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(x));
  return bits;
#else
  return to_bf16(x).bits;
#endif
}
/// Two rounded numbers in one word, `low` in the lower half.
__device__ __forceinline__ unsigned bf16_pair(float low, float high) {
#ifdef __CUDA_ARCH__
  unsigned pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
#else
  return bf16_bits(low) | bf16_bits(high) << 16;
#endif
}

template <class T>
__device__ __forceinline__ T narrow(float x);
template <>
__device__ __forceinline__ float narrow<float>(float x) {
  return x;
}
template <>
__device__ __forceinline__ bf16 narrow<bf16>(float x) {
  return bf16{static_cast<std::uint16_t>(bf16_bits(x))};
}

/// x[0..N) of p[0..N). N is 1 or a multiple of what 16 bytes hold; then p is 16-byte aligned.
template <int N>
__device__ __forceinline__ void load(const float* p, float (&x)[N]) {
  if constexpr (N == 1) {
    x[0] = p[0];
  } else {
    static_assert(N % kVectorOf<float> == 0);
#pragma unroll
    for (int i = 0; i < N; i += 4) {
      const float4 v = load_vector<float4>(p + i);
      x[i] = v.x, x[i + 1] = v.y, x[i + 2] = v.z, x[i + 3] = v.w;
    }
  }
}
template <int N>
__device__ __forceinline__ void load(const bf16* p, float (&x)[N]) {
  if constexpr (N == 1) {
    x[0] = widen(p[0]);
  } else {
    static_assert(N % kVectorOf<bf16> == 0);
#pragma unroll
    for (int i = 0; i < N; i += 8) {
      const uint4 v = load_vector<uint4>(p + i);
      const unsigned words[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
      for (int w = 0; w < 4; ++w) {
        x[i + 2 * w] = __uint_as_float(words[w] << 16);
        x[i + 2 * w + 1] = __uint_as_float(words[w] & 0xffff0000u);
      }
    }
  }
}

/// p[0..N) = x[0..N), rounded. The same N and alignment as load.
template <int N>
__device__ __forceinline__ void store(float* p, const float (&x)[N]) {
  if constexpr (N == 1) {
    p[0] = x[0];
  } else {
    static_assert(N % kVectorOf<float> == 0);
#pragma unroll
    for (int i = 0; i < N; i += 4) store_vector(p + i, float4{x[i], x[i + 1], x[i + 2], x[i + 3]});
  }
}
template <int N>
__device__ __forceinline__ void store(bf16* p, const float (&x)[N]) {
  if constexpr (N == 1) {
    p[0] = narrow<bf16>(x[0]);
  } else {
    static_assert(N % kVectorOf<bf16> == 0);
#pragma unroll
    for (int i = 0; i < N; i += 8)
      store_vector(p + i, uint4{bf16_pair(x[i], x[i + 1]), bf16_pair(x[i + 2], x[i + 3]),
                                bf16_pair(x[i + 4], x[i + 5]), bf16_pair(x[i + 6], x[i + 7])});
  }
}

// --- On the host: how to launch
// -----------------------------------------------------------------------------------

/// Whether rows of all these operands (absent ones aside) can be read N elements at a time: they start at
/// multiples of 16 bytes and have a multiple of N elements.
inline bool rows_are_vectors(const Context& context, int n, std::initializer_list<const Operand*> operands) {
  for (const Operand* o : operands) {
    if (!*o) continue;
    if (reinterpret_cast<std::uintptr_t>(context.data(*o)) % kVectorBytes != 0) return false;
    if (o->cols % n != 0) return false;
    if (o->rows > 1 && o->pitch * size_of(o->dtype) % kVectorBytes != 0) return false;
  }
  return true;
}

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// Calls f(T{}) with the type of a floating-point dtype.
template <class F>
void with_type(DType dtype, F f) {
  if (dtype == DType::bf16)
    f(bf16{});
  else
    f(float{});
}

/// An int known at compile time, as an argument.
template <int N>
struct Int {
  static constexpr int value = N;
};

/// Calls f(T{}, Int<N>{}): N = a full vector of T where all rows allow it, else 1.
template <class F>
void with_vectors(const Context& context, DType dtype, std::initializer_list<const Operand*> operands, F f) {
  with_type(dtype, [&](auto t) {
    constexpr int kFull = kVectorOf<decltype(t)>;
    if (rows_are_vectors(context, kFull, operands))
      f(t, Int<kFull>{});
    else
      f(t, Int<1>{});
  });
}

}  // namespace titan::cuda
