// What the general kernels share: f32 tiles of kTile rows in shared memory and products of them. 128 threads
// are 8 × 16: thread (y, x) makes elements (y + 8·i, x + 16·j). Kernels ask for two blocks a multiprocessor:
// unasked, ptxas spills registers to fit more.
#pragma once

#include "kernels/cuda/attention/tiles.h"
#include "kernels/cuda/base/vector.h"

namespace titan::cuda {

constexpr int kThreadRows = 8, kThreadCols = 16;
static_assert(kThreadRows * kThreadCols == kAttentionThreads);

/// Distance of a tile's rows: odd, so that 16 rows are in 16 banks.
__host__ __device__ constexpr int general_pitch(int head_dim) { return head_dim | 1; }

template <int kTile>
struct GeneralTile {
  static constexpr int kRows = kTile / kThreadRows, kCols = kTile / kThreadCols;  ///< of one thread
  static constexpr int kScorePitch = kTile + 1;

  int dim;
  int y = static_cast<int>(threadIdx.x) / kThreadCols, x = static_cast<int>(threadIdx.x) % kThreadCols;

  __device__ __forceinline__ int pitch() const { return general_pitch(dim); }
  __device__ __forceinline__ int row(int i) const { return y + kThreadRows * i; }
  __device__ __forceinline__ int col(int j) const { return x + kThreadCols * j; }

  /// tile = rows [first, first + count) of a head, zero below.
  __device__ __forceinline__ void load(const HeadRows& from, std::int64_t first, int count, int head,
                                       float* tile) const {
    for (int r = y; r < kTile; r += kThreadRows) {
      const std::int64_t at = (first + r) * from.pitch + std::int64_t{head} * dim;
      for (int c = x; c < dim; c += kThreadCols) {
        float value = 0;
        if (r < count)
          value = from.is_bf16 ? widen(reinterpret_cast<const bf16*>(from.data)[at + c])
                               : reinterpret_cast<const float*>(from.data)[at + c];
        tile[r * pitch() + c] = value;
      }
    }
  }

  __device__ __forceinline__ void clear(float* tile) const {
    for (int r = y; r < kTile; r += kThreadRows)
      for (int c = x; c < dim; c += kThreadCols) tile[r * pitch() + c] = 0;
  }

  /// scores = a · bᵀ.
  __device__ __forceinline__ void multiply(const float* a, const float* b,
                                           float (&scores)[kRows][kCols]) const {
    for (int i = 0; i < kRows; ++i)
      for (int j = 0; j < kCols; ++j) scores[i][j] = 0;
    for (int d = 0; d < dim; ++d) {
      float left[kRows], right[kCols];
#pragma unroll
      for (int i = 0; i < kRows; ++i) left[i] = a[row(i) * pitch() + d];
#pragma unroll
      for (int j = 0; j < kCols; ++j) right[j] = b[col(j) * pitch() + d];
#pragma unroll
      for (int i = 0; i < kRows; ++i)
#pragma unroll
        for (int j = 0; j < kCols; ++j) scores[i][j] += left[i] * right[j];
    }
  }

  /// to = shrink · to + scores · b; shrink by row, null for 1. Scores are transposed when their rows are
  /// 1 apart and not kScorePitch.
  template <int kRowStride>
  __device__ __forceinline__ void add_product(const float* scores, const float* b, const float* shrink,
                                              float* to) const {
    constexpr int kInnerStride = kRowStride == 1 ? kScorePitch : 1;
    for (int c = x; c < dim; c += kThreadCols) {
      float sum[kRows] = {};
      for (int k = 0; k < kTile; ++k) {
        const float right = b[k * pitch() + c];
#pragma unroll
        for (int i = 0; i < kRows; ++i) sum[i] += scores[row(i) * kRowStride + k * kInnerStride] * right;
      }
#pragma unroll
      for (int i = 0; i < kRows; ++i) {
        float& element = to[row(i) * pitch() + c];
        element = (shrink != nullptr ? shrink[row(i)] * element : element) + sum[i];
      }
    }
  }

  __device__ __forceinline__ void store_scores(const float (&values)[kRows][kCols], float* scores) const {
#pragma unroll
    for (int i = 0; i < kRows; ++i)
#pragma unroll
      for (int j = 0; j < kCols; ++j) scores[row(i) * kScorePitch + col(j)] = values[i][j];
  }

  /// Rows [first, first + count) of a head = tile · factor(row).
  template <class Factor>
  __device__ __forceinline__ void store(const float* tile, const HeadRows& to, bool add, std::int64_t first,
                                        int count, int head, Factor factor) const {
    for (int r = y; r < count && r < kTile; r += kThreadRows) {
      const std::int64_t at = (first + r) * to.pitch + std::int64_t{head} * dim;
      const float by = factor(r);
      for (int c = x; c < dim; c += kThreadCols) {
        float value = tile[r * pitch() + c] * by;
        if (to.is_bf16) {
          bf16* const p = reinterpret_cast<bf16*>(to.data) + at + c;
          *p = narrow<bf16>(add ? value + widen(*p) : value);
        } else {
          float* const p = reinterpret_cast<float*>(to.data) + at + c;
          *p = add ? value + *p : value;
        }
      }
    }
  }
};

/// Shared memory for `tiles` tiles, one of scores and `columns` numbers a row.
constexpr std::size_t general_bytes(int tile, int tiles, int columns, int head_dim) {
  return sizeof(float) *
         static_cast<std::size_t>(tiles * tile * general_pitch(head_dim) + tile * (tile + 1 + columns));
}

/// Calls f(Int<tile>{}) with the largest tile that leaves other blocks room, or fits at all.
template <class F>
void with_general_tile(int tiles, int columns, int head_dim, F f) {
  constexpr std::size_t kMost = 99 << 10;  // of capabilities 8.6, 8.9 and 12.0
  constexpr std::size_t kLists = sizeof(TileList<>) + 64;
  const auto fits = [&](int tile) { return general_bytes(tile, tiles, columns, head_dim) + kLists <= kMost; };
  if (fits(64)) return f(Int<64>{});
  if (fits(32)) return f(Int<32>{});
  f(Int<16>{});
}

}  // namespace titan::cuda
