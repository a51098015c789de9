#include "kernels/cpu/attention/matmul.h"

#include "kernels/cpu/base/simd.h"

namespace titan::cpu::TITAN_ISA {
namespace {

// The tile of c that stays in registers: kRows · kVectors sums, kVectors of b and one broadcast element of a.
// At least 8 sums hide the latency of two FMA pipes; 12 + 2 + 1 fill 16 registers.
constexpr int kRows = kWidth == 16 ? 8 : 6;
constexpr int kVectors = 2;

template <bool kTransposed, int kTileRows, int kTileVectors>
TITAN_INLINE void tile(int k, const float* a, int64_t lda, const float* b, int64_t ldb, float* c, int64_t ldc,
                       bool add) {
  vfloat sum[kTileRows][kTileVectors];
#pragma GCC unroll 16
  for (int r = 0; r < kTileRows; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < kTileVectors; ++v) sum[r][v] = add ? load(c + r * ldc + v * kWidth) : vfloat{};
  for (int i = 0; i < k; ++i) {
    vfloat row[kTileVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kTileVectors; ++v) row[v] = load(b + i * ldb + v * kWidth);
#pragma GCC unroll 16
    for (int r = 0; r < kTileRows; ++r) {
      const vfloat x = broadcast(kTransposed ? a[i * lda + r] : a[r * lda + i]);
#pragma GCC unroll 4
      for (int v = 0; v < kTileVectors; ++v) sum[r][v] += x * row[v];
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < kTileRows; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < kTileVectors; ++v) store(c + r * ldc + v * kWidth, sum[r][v]);
}

/// All m rows: tiles of kTileRows, then what is left by smaller ones.
template <bool kTransposed, int kTileRows, int kTileVectors>
void rows(int m, int k, const float* a, int64_t lda, const float* b, int64_t ldb, float* c, int64_t ldc,
          bool add) {
  for (; m >= kTileRows; m -= kTileRows, c += kTileRows * ldc) {
    tile<kTransposed, kTileRows, kTileVectors>(k, a, lda, b, ldb, c, ldc, add);
    a += kTransposed ? kTileRows : kTileRows * lda;
  }
  if constexpr (kTileRows > 1) {
    if (m > 0) rows<kTransposed, kTileRows - 1, kTileVectors>(m, k, a, lda, b, ldb, c, ldc, add);
  }
}

template <bool kTransposed>
void product(int m, int n, int k, const float* a, int64_t lda, const float* b, int64_t ldb, float* c,
             int64_t ldc, bool add) {
  int col = 0;
  for (; col + kVectors * kWidth <= n; col += kVectors * kWidth)
    rows<kTransposed, kRows, kVectors>(m, k, a, lda, b + col, ldb, c + col, ldc, add);
  for (; col < n; col += kWidth) rows<kTransposed, kRows, 1>(m, k, a, lda, b + col, ldb, c + col, ldc, add);
}

}  // namespace

void matmul(int m, int n, int k, const float* a, int64_t lda, const float* b, int64_t ldb, float* c,
            int64_t ldc, bool add) {
  product<false>(m, n, k, a, lda, b, ldb, c, ldc, add);
}

void matmul_transposed(int m, int n, int k, const float* a, int64_t lda, const float* b, int64_t ldb,
                       float* c, int64_t ldc, bool add) {
  product<true>(m, n, k, a, lda, b, ldb, c, ldc, add);
}

}  // namespace titan::cpu::TITAN_ISA
