// 8-bit floats in memory, as their codes, from floats in registers.
#pragma once

#include "kernels/base/float8.h"
#include "kernels/cuda/base/amax.h"
#include "kernels/cuda/base/vector.h"

namespace titan::cuda {

/// Two numbers as 8-bit codes, `low` in the lower byte.
template <DType Type>
__device__ __forceinline__ unsigned codes(float low, float high) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
  unsigned short pair;
  if constexpr (Type == DType::f8e4m3)
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(high), "f"(low));
  else
    asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(high), "f"(low));
  return pair;
#else
  if constexpr (Type == DType::f8e4m3) return to_f8e4m3(low).bits | unsigned{to_f8e4m3(high).bits} << 8;
  return to_f8e5m2(low).bits | unsigned{to_f8e5m2(high).bits} << 8;
#endif
}

/// The first `count` of N numbers to p: 4 or 8 bytes at a time where N of them are there.
template <DType Type, int N>
__device__ __forceinline__ void store_codes(std::uint8_t* p, const float (&x)[N], int count) {
  if constexpr (N == 1) {
    if (count == 1) p[0] = static_cast<std::uint8_t>(codes<Type>(x[0], 0) & 0xffu);
  } else {
    unsigned words[N / 4];
#pragma unroll
    for (int w = 0; w < N / 4; ++w)
      words[w] = codes<Type>(x[4 * w], x[4 * w + 1]) | codes<Type>(x[4 * w + 2], x[4 * w + 3]) << 16;
    if (count == N) {
      if constexpr (N == 4)
        store_vector(p, words[0]);
      else
        store_vector(p, uint2{words[0], words[1]});
      return;
    }
    for (int i = 0; i < count; ++i) p[i] = static_cast<std::uint8_t>(words[i / 4] >> 8 * (i % 4));
  }
}

/// What a kernel finds of its result besides (ops.h).
enum class Finds { nothing, amax, rows };

/// x as a T holds it.
template <class T, int N>
__device__ __forceinline__ void round_to(float (&x)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) x[i] = widen(narrow<T>(x[i]));
}

/// The factor of a row whose largest magnitude has the bits `most`.
template <DType Type>
__device__ __forceinline__ float row_factor(unsigned most) {
  return floor_to_power_of_two(float8_factor(Type, __uint_as_float(most)));
}

/// e4m3 codes of x · factor.
template <int N>
__device__ __forceinline__ void store_scaled(std::uint8_t* codes, const float (&x)[N], float factor) {
  float scaled[N];
#pragma unroll
  for (int i = 0; i < N; ++i) scaled[i] = x[i] * factor;
  store_codes<DType::f8e4m3>(codes, scaled, N);
}

// --- On the host
// ---------------------------------------------------------------------------------------------------

/// Whether rows of N codes can be stored as one: they start at multiples of N bytes.
inline bool rows_take(const Context& context, const Operand& o, std::int64_t n) {
  return !o || (reinterpret_cast<std::uintptr_t>(context.data(o)) % static_cast<std::uintptr_t>(n) == 0 &&
                o.pitch % n == 0);
}

/// with_vectors(), where rows of `quantized` take as many codes at a time.
template <class F>
void with_vectors(const Context& context, DType dtype, std::initializer_list<const Operand*> operands,
                  const Operand& quantized, F f) {
  with_type(dtype, [&](auto t) {
    constexpr int kFull = kVectorOf<decltype(t)>;
    if (rows_are_vectors(context, kFull, operands) && rows_take(context, quantized, kFull))
      f(t, Int<kFull>{});
    else
      f(t, Int<1>{});
  });
}

}  // namespace titan::cuda
