// One vector type for kernels that are compiled once per instruction set (see kernels.h). The compiler's
// vector extension does the work: arithmetic operators act lane by lane, a*b+c becomes a fused multiply-add
// where the machine has one.
//
// Rules of a file that includes this one: everything in namespace TITAN_ISA inside titan::cpu, no standard
// library templates (their inline functions would be compiled for this instruction set and might be linked
// into code for all machines).
#pragma once

#include <stdint.h>
#include <string.h>

#include "kernels/base/dtype.h"

#ifndef TITAN_ISA
#error \
    "simd.h is for sources listed in TITAN_SIMD_SOURCES: they are compiled with TITAN_ISA and TITAN_SIMD_WIDTH"
#endif

namespace titan::cpu::TITAN_ISA {

inline constexpr int kWidth = TITAN_SIMD_WIDTH;  ///< float lanes: 4, 8 or 16

typedef float vfloat __attribute__((vector_size(4 * TITAN_SIMD_WIDTH)));
typedef int32_t vint __attribute__((vector_size(4 * TITAN_SIMD_WIDTH)));
typedef uint32_t vuint __attribute__((vector_size(4 * TITAN_SIMD_WIDTH)));
typedef uint16_t vhalf __attribute__((vector_size(2 * TITAN_SIMD_WIDTH)));  ///< kWidth bf16 values

/// bf16 in memory, as the SIMD sources see it.
struct half {
  uint16_t bits;
};

#define TITAN_INLINE static inline __attribute__((always_inline, unused))

TITAN_INLINE vfloat broadcast(float x) { return x - vfloat{}; }
TITAN_INLINE vint broadcast(int32_t x) { return x - vint{}; }

/// Between 16 and 32 bits a lane (narrow: of values below 65536), and lane-wise maximum and minimum (b where
/// either is NaN). Few instructions each, which gcc 12 does not find behind the plain expressions.
#if TITAN_SIMD_WIDTH == 8 && defined(__AVX2__)
typedef short short8 __attribute__((vector_size(16)));
TITAN_INLINE vuint widen(vhalf v) { return (vuint)__builtin_ia32_pmovzxwd256((short8)v); }
TITAN_INLINE vhalf narrow(vuint v) {
  return (vhalf)__builtin_ia32_packusdw128(__builtin_shufflevector((vint)v, (vint)v, 0, 1, 2, 3),
                                           __builtin_shufflevector((vint)v, (vint)v, 4, 5, 6, 7));
}
TITAN_INLINE vfloat max(vfloat a, vfloat b) { return __builtin_ia32_maxps256(a, b); }
TITAN_INLINE vfloat min(vfloat a, vfloat b) { return __builtin_ia32_minps256(a, b); }
#else
TITAN_INLINE vuint widen(vhalf v) { return __builtin_convertvector(v, vuint); }
TITAN_INLINE vhalf narrow(vuint v) { return __builtin_convertvector(v, vhalf); }
TITAN_INLINE vfloat max(vfloat a, vfloat b) { return a > b ? a : b; }
TITAN_INLINE vfloat min(vfloat a, vfloat b) { return a < b ? a : b; }
#endif

TITAN_INLINE vfloat load(const float* p) {
  vfloat v;
  memcpy(&v, p, sizeof v);
  return v;
}
TITAN_INLINE vfloat load(const half* p) {
  vhalf h;
  memcpy(&h, p, sizeof h);
  return (vfloat)(widen(h) << 16);
}
TITAN_INLINE void store(float* p, vfloat v) { memcpy(p, &v, sizeof v); }
/// Rounds to nearest even. NaN keeps a quiet payload.
TITAN_INLINE void store(half* p, vfloat v) {
  const vuint u = (vuint)v;
  const vuint rounded = u + 0x7fffu + ((u >> 16) & 1u), quiet = u | 0x400000u;
  const vhalf h = narrow((v != v ? quiet : rounded) >> 16);
  memcpy(p, &h, sizeof h);
}

TITAN_INLINE float load1(const float* p) { return *p; }
TITAN_INLINE float load1(const half* p) {
  const uint32_t u = (uint32_t)p->bits << 16;
  float f;
  memcpy(&f, &u, 4);
  return f;
}
TITAN_INLINE void store1(float* p, float x) { *p = x; }
TITAN_INLINE void store1(half* p, float x) {
  uint32_t u;
  memcpy(&u, &x, 4);
  p->bits = (uint16_t)(x != x ? (u >> 16) | 0x40u : (u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}

/// The first n < kWidth elements; the other lanes are zero (load) or left alone (store).
template <class T>
TITAN_INLINE vfloat load_first(const T* p, int n) {
  T buffer[kWidth];
  memset(buffer, 0, sizeof buffer);
  memcpy(buffer, p, (size_t)n * sizeof(T));
  return load(buffer);
}
template <class T>
TITAN_INLINE void store_first(T* p, vfloat v, int n) {
  T buffer[kWidth];
  store(buffer, v);
  memcpy(p, buffer, (size_t)n * sizeof(T));
}

TITAN_INLINE vfloat select(vint mask, vfloat a, vfloat b) { return mask ? a : b; }

TITAN_INLINE vfloat sqrt(vfloat v) {
  for (int i = 0; i < kWidth; ++i) v[i] = __builtin_sqrtf(v[i]);
  return v;
}

/// Lanes are added pairwise: a fixed order.
TITAN_INLINE float sum(vfloat v) {
  float lane[kWidth];
  store(lane, v);
  for (int width = kWidth / 2; width > 0; width /= 2)
    for (int i = 0; i < width; ++i) lane[i] += lane[i + width];
  return lane[0];
}
TITAN_INLINE float max_lane(vfloat v) {
  float lane[kWidth];
  store(lane, v);
  float m = lane[0];
  for (int i = 1; i < kWidth; ++i) m = lane[i] > m ? lane[i] : m;
  return m;
}

/// 2^x for x in [-126, 127] (below: clamped to 2^-126, for callers where that is zero enough). Relative error
/// < 2e-7: x = n + f with |f| <= 1/2; 2^f by a degree-6 polynomial, 2^n by the exponent bits. NaN stays NaN.
TITAN_INLINE vfloat exp2(vfloat x) {
  const vfloat low = broadcast(-126.0f), high = broadcast(127.0f);
  x = min(high, max(low, x));  // in this order: a comparison with NaN is false, which chooses x
  const vfloat magic = broadcast(12582912.0f);  // 1.5·2^23: adding it rounds to the nearest integer
  const vfloat shifted = x + magic;
  const vfloat f = x - (shifted - magic);
  vfloat p = broadcast(1.54035304e-4f);
  p = p * f + 1.33335581e-3f;
  p = p * f + 9.61812911e-3f;
  p = p * f + 5.55041087e-2f;
  p = p * f + 2.40226507e-1f;
  p = p * f + 6.93147181e-1f;
  p = p * f + 1.0f;
  return (vfloat)((vint)p + ((vint)shifted << 23));
}
TITAN_INLINE vfloat exp(vfloat x) { return exp2(x * 1.44269504088896341f); }

}  // namespace titan::cpu::TITAN_ISA
