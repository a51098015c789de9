// Pairs of bf16 that are neighbours along the summed dimension, in 32 bits each, even one low: the operands
// of the AVX-512 dot product. For sources in BF16_SOURCES.
#pragma once

#include <immintrin.h>

#include "kernels/cpu/base/simd.h"

namespace titan::cpu::TITAN_ISA {

/// sum + a.low · b.low + a.high · b.high, lane by lane (vdpbf16ps: odd element first, subnormals are zero).
TITAN_INLINE vfloat multiply_add(uint32_t a, __m512i b, vfloat sum) {
  return (vfloat)_mm512_dpbf16_ps((__m512)sum, (__m512bh)_mm512_set1_epi32((int)a), (__m512bh)b);
}

TITAN_INLINE __mmask32 first_lanes(int64_t n) { return n >= 32 ? 0xffffffffu : n <= 0 ? 0u : (1u << n) - 1; }

/// The pairs of sixteen columns of two rows.
TITAN_INLINE __m512i interleave(const half* even, const half* odd) {
  const __m512i low = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i*)even));
  const __m512i high = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i*)odd));
  return _mm512_or_si512(low, _mm512_slli_epi32(high, 16));
}

/// The pairs of sixteen columns of two rows, of which those from `columns` on are zero; no odd row: zeros.
TITAN_INLINE __m512i interleave(const half* even, const half* odd, int64_t columns) {
  const __mmask16 mask = (__mmask16)(first_lanes(columns) & 0xffffu);
  const __m512i low = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, even));
  if (odd == nullptr) return low;
  const __m512i high = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, odd));
  return _mm512_or_si512(low, _mm512_slli_epi32(high, 16));
}

/// The pairs of two rows in f32, rounded to nearest even.
TITAN_INLINE __m512i interleave(vfloat even, vfloat odd) {
  const __m512i halves = (__m512i)_mm512_cvtne2ps_pbh((__m512)odd, (__m512)even);
  const __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7,
                                         22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  return _mm512_permutexvar_epi16(order, halves);
}

/// Sixteen values rounded to bf16.
TITAN_INLINE void store_rounded(void* to, vfloat v) {
  _mm256_storeu_si256((__m256i*)to, (__m256i)_mm512_cvtneps_pbh((__m512)v));
}

/// The 16×16 transpose of 32-bit elements.
TITAN_INLINE void transpose(__m512i (&r)[16]) {
  __m512i t[16];
#pragma GCC unroll 8
  for (int i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
    t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 16; i += 4) {
    r[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
    r[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
    r[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
    r[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {  // columns i, i + 4, i + 8, i + 12 of rows 0-3, 4-7, 8-11, 12-15
    const __m512i low01 = _mm512_shuffle_i32x4(r[i], r[i + 4], 0x88);
    const __m512i high01 = _mm512_shuffle_i32x4(r[i], r[i + 4], 0xdd);
    const __m512i low23 = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0x88);
    const __m512i high23 = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0xdd);
    t[i] = _mm512_shuffle_i32x4(low01, low23, 0x88);
    t[i + 8] = _mm512_shuffle_i32x4(low01, low23, 0xdd);
    t[i + 4] = _mm512_shuffle_i32x4(high01, high23, 0x88);
    t[i + 12] = _mm512_shuffle_i32x4(high01, high23, 0xdd);
  }
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) r[i] = t[i];
}

}  // namespace titan::cpu::TITAN_ISA
