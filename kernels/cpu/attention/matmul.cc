#include "kernels/cpu/attention/matmul.h"

#include "kernels/cpu/base/simd.h"

namespace titan::cpu::TITAN_ISA {
namespace {

// The tile of c that stays in registers: kRows · kVectors sums, kVectors of b and one broadcast element of a.
// At least 8 sums hide the latency of two FMA pipes; 12 + 2 + 1 fill 16 registers.
constexpr int kRows = kWidth == 16 ? 8 : 6;
constexpr int kVectors = 2;

enum class Kind { overwrite, add, transposed_add };

template <Kind kKind, int kTileRows, int kTileVectors>
TITAN_INLINE void tile(int k, const float* a, int64_t lda, const float* b, int64_t ldb, float* c,
                       int64_t ldc) {
  vfloat sum[kTileRows][kTileVectors];
#pragma GCC unroll 16
  for (int r = 0; r < kTileRows; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < kTileVectors; ++v)
      sum[r][v] = kKind == Kind::overwrite ? vfloat{} : load(c + r * ldc + v * kWidth);
  for (int i = 0; i < k; ++i) {
    vfloat row[kTileVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kTileVectors; ++v) row[v] = load(b + i * ldb + v * kWidth);
#pragma GCC unroll 16
    for (int r = 0; r < kTileRows; ++r) {
      const vfloat x = broadcast(kKind == Kind::transposed_add ? a[i * lda + r] : a[r * lda + i]);
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
template <Kind kKind, int kTileRows, int kTileVectors>
void rows(int m, int k, const float* a, int64_t lda, const float* b, int64_t ldb, float* c, int64_t ldc) {
  for (; m >= kTileRows; m -= kTileRows, c += kTileRows * ldc) {
    tile<kKind, kTileRows, kTileVectors>(k, a, lda, b, ldb, c, ldc);
    a += kKind == Kind::transposed_add ? kTileRows : kTileRows * lda;
  }
  if constexpr (kTileRows > 1) {
    if (m > 0) rows<kKind, kTileRows - 1, kTileVectors>(m, k, a, lda, b, ldb, c, ldc);
  }
}

template <Kind kKind>
void product(int m, int n, int k, const float* a, int64_t lda, const float* b, int64_t ldb, float* c,
             int64_t ldc) {
  int col = 0;
  for (; col + kVectors * kWidth <= n; col += kVectors * kWidth)
    rows<kKind, kRows, kVectors>(m, k, a, lda, b + col, ldb, c + col, ldc);
  for (; col < n; col += kWidth) rows<kKind, kRows, 1>(m, k, a, lda, b + col, ldb, c + col, ldc);
}

}  // namespace

void matmul(int m, int n, int k, const float* a, int64_t lda, const float* b, int64_t ldb, float* c,
            int64_t ldc) {
  product<Kind::overwrite>(m, n, k, a, lda, b, ldb, c, ldc);
}

void matmul_add(int m, int n, int k, const float* a, int64_t lda, const float* b, int64_t ldb, float* c,
                int64_t ldc) {
  product<Kind::add>(m, n, k, a, lda, b, ldb, c, ldc);
}

void matmul_transposed_add(int m, int n, int k, const float* a, int64_t lda, const float* b, int64_t ldb,
                           float* c, int64_t ldc) {
  product<Kind::transposed_add>(m, n, k, a, lda, b, ldb, c, ldc);
}

}  // namespace titan::cpu::TITAN_ISA
