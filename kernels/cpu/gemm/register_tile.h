// The register tile of the packed GEMM, over whatever a panel holds. For SIMD sources (base/simd.h).
//
// `Panels` says how one step along k works:
//   - Element: what a panel of A holds for one row and step, and one of B for one column and step; Vector:
//   sixteen
//     (kWidth) of the latter
//   - kRows, kVectors: the tile has kRows × kVectors vectors of sums
//   - kDepthUnit: values of k in a step
//   - load_vector(const Element*), multiply_add(Element a, Vector b, vfloat sum), store_vector(T*, vfloat)
#pragma once

#include "kernels/cpu/base/simd.h"
#include "kernels/cpu/gemm/gemm_kernels.h"

namespace titan::cpu::TITAN_ISA {

/// One panel of A by the first kVectors vectors of one panel of B. kReadsRows: A is the matrix itself, its
/// rows contiguous along k.
template <class Panels, class Out, int kVectors, bool kReadsRows>
struct RegisterTile {
  static constexpr int kRows = Panels::kRows, kPanel = Panels::kVectors * kWidth,
                       kColumns = kVectors * kWidth;
  typedef typename Panels::Element Element;
  typedef typename Panels::Vector Vector;

  /// The tile of c or of the sums is far away: it arrives while the products are made.
  TITAN_INLINE void prefetch(const void* p, int64_t pitch_bytes, int row_bytes) {
    for (int i = 0; i < kRows; ++i)
      for (int j = 0; j < row_bytes; j += 64) __builtin_prefetch((const char*)p + i * pitch_bytes + j, 1);
  }

  TITAN_INLINE Element load_element(const char* p) {
    Element e;
    memcpy(&e, p, sizeof e);
    return e;
  }

  /// Up to kRows × kColumns of c at (row, column) of the block.
  TITAN_INLINE void multiply(const GemmBlock& x, int64_t row, int64_t column) {
    const int64_t steps = (x.depth + Panels::kDepthUnit - 1) / Panels::kDepthUnit;
    const bool whole = row + kRows <= x.rows && column + kColumns <= x.columns;
    const Element* b = (const Element*)x.b + column * steps;
    float* const sums = x.sums + row * x.sums_pitch + column;
    Out* const c = (Out*)x.c + row * x.c_pitch + column;
    if (x.last) prefetch(c, x.c_pitch * (int64_t)sizeof(Out), kColumns * (int)sizeof(Out));

    // Packed, the rows of one step are neighbours; else a row is a_pitch bytes from the one before. Rows that
    // the block lacks read its last one, and are not stored.
    const char* a =
        (const char*)x.a + (kReadsRows ? row * x.a_pitch : row * steps * (int64_t)sizeof(Element));
    int64_t at[kRows];
    for (int i = 0; i < kRows; ++i)
      at[i] =
          kReadsRows ? (row + i < x.rows ? i : x.rows - 1 - row) * x.a_pitch : i * (int64_t)sizeof(Element);
    constexpr int64_t kNextStep = kReadsRows ? sizeof(Element) : kRows * sizeof(Element);

    vfloat sum[kRows][kVectors];
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 4
      for (int j = 0; j < kVectors; ++j)
        sum[i][j] = x.first ? vfloat{} : load(sums + i * x.sums_pitch + j * kWidth);
    for (int64_t d = 0; d < steps; ++d, a += kNextStep, b += kPanel) {
      Vector vector[kVectors];
#pragma GCC unroll 4
      for (int j = 0; j < kVectors; ++j) vector[j] = Panels::load_vector(b + j * kWidth);
#pragma GCC unroll 16
      for (int i = 0; i < kRows; ++i) {
        const Element e = load_element(kReadsRows ? a + at[i] : a + i * (int64_t)sizeof(Element));
#pragma GCC unroll 4
        for (int j = 0; j < kVectors; ++j) sum[i][j] = Panels::multiply_add(e, vector[j], sum[i][j]);
      }
    }
    if (!x.last) return store_tile(sum, sums, x.sums_pitch, false);
    if (x.scaling.rows != nullptr) scale(x, row, column, sum);
    if (whole) return store_tile(sum, c, x.c_pitch, x.add);
    float edge[kRows * kColumns];
    store_tile(sum, edge, kColumns, false);
    for (int i = 0; i < kRows && row + i < x.rows; ++i)
      for (int j = 0; j < kColumns && column + j < x.columns; ++j) {
        Out* const p = c + i * x.c_pitch + j;
        const float total = edge[i * kColumns + j];
        store1(p, x.add ? load1(p) + total : total);
      }
  }

  /// Columns are a multiple of the vector width: a vector is within the block or not.
  TITAN_INLINE void scale(const GemmBlock& x, int64_t row, int64_t column, vfloat (&sum)[kRows][kVectors]) {
    const GemmScaling& by = x.scaling;
    vfloat columns[kVectors];
#pragma GCC unroll 4
    for (int j = 0; j < kVectors; ++j)
      columns[j] = !by.each                          ? broadcast(by.columns[0])
                   : column + j * kWidth < x.columns ? load(by.columns + column + j * kWidth)
                                                     : vfloat{};
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
      const float factor = by.rows[!by.each ? 0 : row + i < x.rows ? row + i : x.rows - 1];
#pragma GCC unroll 4
      for (int j = 0; j < kVectors; ++j) sum[i][j] = sum[i][j] * factor * columns[j];
    }
  }

  template <class T>
  TITAN_INLINE void store_tile(const vfloat (&sum)[kRows][kVectors], T* to, int64_t pitch, bool add) {
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 4
      for (int j = 0; j < kVectors; ++j) {
        T* const p = to + i * pitch + j * kWidth;
        Panels::store_vector(p, add ? load(p) + sum[i][j] : sum[i][j]);
      }
  }
};

/// The rows of the block by one panel of B, of which kVectors vectors are within the matrix.
template <class Panels, class Out, bool kReadsRows, int kVectors>
void multiply_panel(const GemmBlock& x, int64_t column) {
  if constexpr (kVectors > 1)
    if (x.columns - column <= (kVectors - 1) * kWidth)
      return multiply_panel<Panels, Out, kReadsRows, kVectors - 1>(x, column);
  for (int64_t row = 0; row < x.rows; row += Panels::kRows)
    RegisterTile<Panels, Out, kVectors, kReadsRows>::multiply(x, row, column);
}

template <class Panels, class Out, bool kReadsRows>
void multiply_panels(const GemmBlock& x) {
  constexpr int kPanel = Panels::kVectors * kWidth;
  for (int64_t column = 0; column < x.columns; column += kPanel)
    multiply_panel<Panels, Out, kReadsRows, Panels::kVectors>(x, column);
}

/// Panels that can be multiplied without packing A (PackedKernels::reads_rows) say so with kReadsRows.
template <class Panels, class Out>
void multiply_block(const GemmBlock& x) {
  if constexpr (Panels::kReadsRows)
    if (x.a_pitch != 0) return multiply_panels<Panels, Out, true>(x);
  multiply_panels<Panels, Out, false>(x);
}

}  // namespace titan::cpu::TITAN_ISA
