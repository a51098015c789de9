// Products of bf16 pairs in a tile of attention, and the operands they need.
#pragma once

#include "kernels/cpu/attention/block.h"
#include "kernels/cpu/base/bf16_pairs.h"

namespace titan::cpu::TITAN_ISA {

// Rows of a product come in eights: keys are padded to that, head dimensions to sixteen.
inline constexpr int kTileRows = 8;

/// 2^x with a relative error below 3e-6, far below the rounding to bf16; 0 for x very small, NaN for NaN. The
/// polynomial is minimax on [-1/2, 1/2].
TITAN_INLINE vfloat fast_exp2(vfloat x) {
  const __m512 n = _mm512_roundscale_ps((__m512)x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  const vfloat f = x - (vfloat)n;
  vfloat p = broadcast(9.58285e-3f);
  p = p * f + 5.590643e-2f;
  p = p * f + 2.4024099e-1f;
  p = p * f + 6.9312419e-1f;
  p = p * f + 1.0f;
  return (vfloat)_mm512_scalef_ps((__m512)p, n);
}

/// sum [kRows, kVectors] += a · b over `steps` pairs. Row r, step s of a is at r·lda + s, transposed at
/// s·lda + r; step s of b is at s·ldb.
template <bool kTransposedA, int kRows, int kVectors>
TITAN_INLINE void accumulate(int steps, const uint32_t* a, int lda, const uint32_t* b, int ldb,
                             vfloat (&sum)[kRows][kVectors]) {
  for (int s = 0; s < steps; ++s, b += ldb) {
    __m512i vector[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) vector[v] = _mm512_loadu_si512(b + v * kWidth);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      const uint32_t x = kTransposedA ? a[s * lda + r] : a[r * lda + s];
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) sum[r][v] = multiply_add(x, vector[v], sum[r][v]);
    }
  }
}

/// c [kRows, kVectors·16] = c · shrink + a · b; shrink is a row of factors, or null for 1.
template <bool kTransposedA, int kRows, int kVectors>
TITAN_INLINE void product_tile(int steps, const uint32_t* a, int lda, const uint32_t* b, int ldb, float* c,
                               int ldc, const float* shrink) {
  vfloat sum[kRows][kVectors];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      sum[r][v] = load(c + r * ldc + v * kWidth);
      if (shrink != nullptr) sum[r][v] *= load(shrink + v * kWidth);
    }
  accumulate<kTransposedA>(steps, a, lda, b, ldb, sum);
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) store(c + r * ldc + v * kWidth, sum[r][v]);
}

template <bool kTransposedA, int kVectors>
TITAN_INLINE void product_rows(int rows, int steps, const uint32_t* a, int lda, const uint32_t* b, int ldb,
                               float* c, int ldc, const float* shrink) {
  int r = 0;
  const int next_row = kTransposedA ? 1 : lda;
  if (kVectors == 1)  // eight sums alone do not cover the latency of the dot product
    for (; r + 2 * kTileRows <= rows; r += 2 * kTileRows)
      product_tile<kTransposedA, 2 * kTileRows, kVectors>(steps, a + r * next_row, lda, b, ldb, c + r * ldc,
                                                          ldc, shrink);
  for (; r < rows; r += kTileRows)
    product_tile<kTransposedA, kTileRows, kVectors>(steps, a + r * next_row, lda, b, ldb, c + r * ldc, ldc,
                                                    shrink);
}

/// c [rows, vectors·16] = c · shrink + a · b; rows is a multiple of kTileRows.
template <bool kTransposedA>
TITAN_INLINE void product(int rows, int vectors, int steps, const uint32_t* a, int lda, const uint32_t* b,
                          int ldb, float* c, int ldc, const float* shrink = nullptr) {
  while (vectors > 0) {
    const int taken = vectors == 4 || vectors == 2 ? 2 : vectors >= 3 ? 3 : 1;
    if (taken == 3)
      product_rows<kTransposedA, 3>(rows, steps, a, lda, b, ldb, c, ldc, shrink);
    else if (taken == 2)
      product_rows<kTransposedA, 2>(rows, steps, a, lda, b, ldb, c, ldc, shrink);
    else
      product_rows<kTransposedA, 1>(rows, steps, a, lda, b, ldb, c, ldc, shrink);
    vectors -= taken;
    b += taken * kWidth;
    c += taken * kWidth;
    if (shrink != nullptr) shrink += taken * kWidth;
  }
}

/// The columns from `first` as rows of pairs [padded, ld] along the head dimension; what is missing is zero.
TITAN_INLINE void load_pair_rows(const HeadColumns& x, int64_t first, int count, int padded, uint32_t* to,
                                 int ld) {
  for_each_column<half>(x, first, count, [&](const half* p, int i) {
    for (int d = 0; d < 2 * ld; d += 32)
      _mm512_storeu_si512(to + i * ld + d / 2, _mm512_maskz_loadu_epi16(first_lanes(x.width - d), p + d));
  });
  memset(to + count * ld, 0, sizeof(uint32_t) * (size_t)((padded - count) * ld));
}

/// to [steps, kQueryBlock] = the transpose of rows of pairs [padded, ld]; padded is a multiple of sixteen.
TITAN_INLINE void transpose_pairs(const uint32_t* rows, int ld, int padded, int steps, uint32_t* to) {
  for (int i = 0; i < padded; i += 16)
    for (int s = 0; s < steps; s += 16) {
      __m512i r[16];
#pragma GCC unroll 16
      for (int j = 0; j < 16; ++j) r[j] = _mm512_loadu_si512(rows + (i + j) * ld + s);
      transpose(r);
#pragma GCC unroll 16
      for (int j = 0; j < 16; ++j)
        if (s + j < steps) _mm512_storeu_si512(to + (s + j) * kQueryBlock + i, r[j]);
    }
}

/// to [padded / 2, width] = pairs of neighbouring rows of `rows` [padded, 2·ld] bf16; width is a multiple of
/// sixteen.
TITAN_INLINE void pair_rows(const uint32_t* rows, int ld, int padded, int width, uint32_t* to) {
  for (int i = 0; i < padded; i += 2)
    for (int d = 0; d < width; d += 16) {
      const half* const even = (const half*)(rows + i * ld) + d;
      _mm512_storeu_si512(to + i / 2 * width + d, interleave(even, even + 2 * ld, 16));
    }
}

/// to [padded, width] = fromᵀ of [width, kQueryBlock], times a factor a column of `from`.
TITAN_INLINE void transpose_scaled(const float* from, int padded, int width, const float* factor, float* to) {
  for (int i = 0; i < padded; i += 16)
    for (int d = 0; d < width; d += 16) {
      __m512i r[16];
#pragma GCC unroll 16
      for (int j = 0; j < 16; ++j)
        r[j] = (__m512i)(load(from + (d + j) * kQueryBlock + i) * load(factor + i));
      transpose(r);
#pragma GCC unroll 16
      for (int j = 0; j < 16; ++j) _mm512_storeu_si512(to + (i + j) * width + d, r[j]);
    }
}

/// Positions of a block's keys; those that only fill it up are after every query.
struct KeyPositions {
  int padded;
  bool masked;  ///< some query does not see some key
  int32_t position[kMaxKeyBlock];
};

TITAN_INLINE void load_key_positions(const Keys& keys, const KeyBlock& block, Visible seen,
                                     KeyPositions* to) {
  to->padded = round_up(block.count, kTileRows);
  to->masked = seen == Visible::some || to->padded != block.count;
  for (int i = 0; i < block.count; ++i) to->position[i] = keys.position[block.first + i];
  for (int i = block.count; i < to->padded; ++i) to->position[i] = INT32_MAX;
}

/// Which of the queries from vector `column` on see the key at `key_position`.
TITAN_INLINE __mmask16 sees(int32_t key_position, const QueryBlock& q, int column) {
  const __m512i key = _mm512_set1_epi32(key_position);
  return _mm512_cmple_epi32_mask(_mm512_loadu_si512(q.doc_start + column), key) &
         _mm512_cmple_epi32_mask(key, _mm512_loadu_si512(q.position + column));
}
TITAN_INLINE vfloat select(__mmask16 mask, vfloat a, vfloat b) {
  return (vfloat)_mm512_mask_blend_ps(mask, (__m512)b, (__m512)a);
}

/// Sizes of working memory: pairs of a row, padded to whole vectors, and the padded head dimension.
TITAN_INLINE int pair_columns(int width) { return round_up(width, 32) / 2; }

}  // namespace titan::cpu::TITAN_ISA
