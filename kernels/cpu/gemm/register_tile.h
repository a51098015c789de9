// The register tile of the packed GEMM, over whatever a panel holds. For SIMD sources (base/simd.h).
//
// `Panels` says how one step along k works:
//   Element                      what one panel of A holds for one row and step, and B for one column and
//   step kRows, kVectors              the tile: kRows × kVectors vectors of sums kDepthUnit values of k in a
//   step Vector load_vector(const Element*);  vfloat multiply_add(Element a, Vector b, vfloat sum)
#pragma once

#include "kernels/cpu/base/simd.h"
#include "kernels/cpu/gemm/gemm_kernels.h"

namespace titan::cpu::TITAN_ISA {

template <class Panels, class Out>
struct RegisterTile {
  static constexpr int kRows = Panels::kRows, kVectors = Panels::kVectors, kColumns = kVectors * kWidth;
  typedef typename Panels::Element Element;
  typedef typename Panels::Vector Vector;

  /// The tile of c or of the sums is far away: it arrives while the products are made.
  TITAN_INLINE void prefetch(const void* p, int64_t pitch_bytes, int row_bytes) {
    for (int i = 0; i < kRows; ++i)
      for (int j = 0; j < row_bytes; j += 64) __builtin_prefetch((const char*)p + i * pitch_bytes + j, 1);
  }

  /// Up to kRows × kColumns of c at (row, column) of the block.
  TITAN_INLINE void multiply(const GemmBlock& x, int64_t row, int64_t column) {
    const int64_t steps = (x.depth + Panels::kDepthUnit - 1) / Panels::kDepthUnit;
    const Element* a = (const Element*)x.a + row * steps;
    const Element* b = (const Element*)x.b + column * steps;
    float* const sums = x.sums + row * x.sums_pitch + column;
    Out* const c = (Out*)x.c + row * x.c_pitch + column;
    if (x.last) prefetch(c, x.c_pitch * (int64_t)sizeof(Out), kColumns * (int)sizeof(Out));

    vfloat sum[kRows][kVectors];
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 4
      for (int j = 0; j < kVectors; ++j)
        sum[i][j] = x.first ? vfloat{} : load(sums + i * x.sums_pitch + j * kWidth);
    for (int64_t d = 0; d < steps; ++d, a += kRows, b += kColumns) {
      Vector vector[kVectors];
#pragma GCC unroll 4
      for (int j = 0; j < kVectors; ++j) vector[j] = Panels::load_vector(b + j * kWidth);
#pragma GCC unroll 16
      for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 4
        for (int j = 0; j < kVectors; ++j) sum[i][j] = Panels::multiply_add(a[i], vector[j], sum[i][j]);
    }
    if (!x.last) return store_tile(sum, sums, x.sums_pitch, false);
    if (row + kRows <= x.rows && column + kColumns <= x.columns) return store_tile(sum, c, x.c_pitch, x.add);
    float edge[kRows * kColumns];
    store_tile(sum, edge, kColumns, false);
    for (int i = 0; i < kRows && row + i < x.rows; ++i)
      for (int j = 0; j < kColumns && column + j < x.columns; ++j) {
        Out* const p = c + i * x.c_pitch + j;
        const float total = edge[i * kColumns + j];
        store1(p, x.add ? load1(p) + total : total);
      }
  }

  template <class T>
  TITAN_INLINE void store_tile(const vfloat (&sum)[kRows][kVectors], T* to, int64_t pitch, bool add) {
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 4
      for (int j = 0; j < kVectors; ++j) {
        T* const p = to + i * pitch + j * kWidth;
        store(p, add ? load(p) + sum[i][j] : sum[i][j]);
      }
  }
};

template <class Panels, class Out>
void multiply_block(const GemmBlock& x) {
  typedef RegisterTile<Panels, Out> Tile;
  for (int64_t column = 0; column < x.columns; column += Tile::kColumns)
    for (int64_t row = 0; row < x.rows; row += Tile::kRows) Tile::multiply(x, row, column);
}

}  // namespace titan::cpu::TITAN_ISA
