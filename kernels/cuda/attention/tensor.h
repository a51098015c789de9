// What the tensor-core kernels share: bf16 tiles in shared memory and products of them. A block is four
// warps; each owns 16·kM consecutive rows of the block's tile and keeps its sums in registers, in the
// fragments of mma.m16n8k16: lane 4·g + t holds rows g and g + 8, columns 8·n + 2t and the next.
#pragma once

#include "kernels/cuda/attention/tiles.h"
#include "kernels/cuda/base/mma.h"
#include "kernels/cuda/base/vector.h"

namespace titan::cuda {

constexpr float kLog2E = 1.4426950408889634f, kLn2 = 0.6931471805599453f;

/// 2^x to about 2 units in the last place.
__device__ __forceinline__ float fast_exp2(float x) {
#ifdef __CUDA_ARCH__
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#else
  return exp2f(x);
#endif
}

__device__ __forceinline__ int warp_lane() { return static_cast<int>(threadIdx.x) % kWarpSize; }
__device__ __forceinline__ int warp_number() { return static_cast<int>(threadIdx.x) / kWarpSize; }

/// Where element 8·chunk of a row is in a tile. Vectors of 16 bytes are permuted within groups of rows, so
/// that the same vector of 8 rows, which ldmatrix reads at once, is in 8 different groups of banks.
template <int kDim>
__device__ __forceinline__ int tile_offset(int row, int chunk) {
  static_assert(kDim % 64 == 0);
  return row * kDim + (chunk ^ (row & 7)) * 8;
}

/// Starts to copy rows [first, first + count) of a head, at most kRows; zeros below.
template <int kDim, int kRows>
__device__ __forceinline__ void load_tile(const HeadRows& from, std::int64_t first, int count, int head,
                                          bf16* tile) {
  constexpr int kChunks = kDim / 8, kStep = kAttentionThreads / kChunks;
  const int chunk = static_cast<int>(threadIdx.x) % kChunks, start = static_cast<int>(threadIdx.x) / kChunks;
  const bf16* data =
      reinterpret_cast<const bf16*>(from.data) + (first + start) * from.pitch + head * kDim + chunk * 8;
#pragma unroll
  for (int row = start; row < kRows; row += kStep, data += kStep * from.pitch)
    copy_async(tile + tile_offset<kDim>(row, chunk), data, row < count);
}

/// c [kM·16 × kN] += rows [row, row + kM·16) of a · bᵀ, both tiles of kDim columns.
template <int kDim, int kM, int kN>
__device__ __forceinline__ void multiply_rows(const bf16* a, int row, const bf16* b,
                                              float (&c)[kM][kN / 8][4]) {
  const int lane = warp_lane();
#pragma unroll
  for (int k = 0; k < kDim / 16; ++k) {
    unsigned left[kM][4];
#pragma unroll
    for (int m = 0; m < kM; ++m)
      load_matrices(left[m], a + tile_offset<kDim>(row + m * 16 + lane % 16, 2 * k + lane / 16));
#pragma unroll
    for (int n = 0; n < kN / 16; ++n) {
      unsigned right[4];
      load_matrices(right, b + tile_offset<kDim>(n * 16 + lane / 16 * 8 + lane % 8, 2 * k + lane / 8 % 2));
#pragma unroll
      for (int m = 0; m < kM; ++m) {
        multiply_add(c[m][2 * n], left[m], {right[0], right[1]});
        multiply_add(c[m][2 * n + 1], left[m], {right[2], right[3]});
      }
    }
  }
}

/// c [kM·16 × kDim] += a [kM·16 × kK] · b, a tile of kK rows. a: sums of an earlier product, rounded.
template <int kDim, int kM, int kK>
__device__ __forceinline__ void add_product(const unsigned (&a)[kM][kK / 16][4], const bf16* b,
                                            float (&c)[kM][kDim / 8][4]) {
  const int lane = warp_lane();
#pragma unroll
  for (int k = 0; k < kK / 16; ++k)
#pragma unroll
    for (int n = 0; n < kDim / 16; ++n) {
      unsigned right[4];
      load_matrices_transposed(right, b + tile_offset<kDim>(k * 16 + lane % 16, 2 * n + lane / 16));
#pragma unroll
      for (int m = 0; m < kM; ++m) {
        multiply_add(c[m][2 * n], a[m][k], {right[0], right[1]});
        multiply_add(c[m][2 * n + 1], a[m][k], {right[2], right[3]});
      }
    }
}

/// Sums as the left side of the next product.
template <int kM, int kTiles>
__device__ __forceinline__ void round_to_bf16(const float (&c)[kM][kTiles][4],
                                              unsigned (&a)[kM][kTiles / 2][4]) {
#pragma unroll
  for (int m = 0; m < kM; ++m)
#pragma unroll
    for (int k = 0; k < kTiles / 2; ++k)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float(&from)[4] = c[m][2 * k + i / 2];
        a[m][k][i] = bf16_pair(from[i % 2 * 2], from[i % 2 * 2 + 1]);
      }
}

template <int kM, int kTiles>
__device__ __forceinline__ void clear(float (&c)[kM][kTiles][4]) {
#pragma unroll
  for (int m = 0; m < kM; ++m)
#pragma unroll
    for (int n = 0; n < kTiles; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) c[m][n][i] = 0;
}

/// Calls f(m, i, n) for every element i of c[m][n]; half = i / 2 says which of the two rows it is in.
template <int kM, int kTiles, class F>
__device__ __forceinline__ void for_each_element(F f) {
#pragma unroll
  for (int m = 0; m < kM; ++m)
#pragma unroll
    for (int n = 0; n < kTiles; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) f(m, n, i);
}

/// This lane's row of fragment m, relative to the warp's first, and column of element i of tile n.
__device__ __forceinline__ int fragment_row(int m, int half) { return m * 16 + half * 8 + warp_lane() / 4; }
__device__ __forceinline__ int fragment_col(int n, int i) { return n * 8 + warp_lane() % 4 * 2 + i % 2; }

/// Two neighbouring elements of a result. Rows start at multiples of 16 bytes.
__device__ __forceinline__ void store_pair(const HeadResult& to, std::int64_t at, float x, float y) {
  if (to.rows.is_bf16) {
    bf16* const p = reinterpret_cast<bf16*>(to.rows.data) + at;
    if (to.add) x += widen(p[0]), y += widen(p[1]);
    store_vector(p, bf16_pair(x, y));
  } else {
    float* const p = reinterpret_cast<float*>(to.rows.data) + at;
    if (to.add) x += p[0], y += p[1];
    store_vector(p, float2{x, y});
  }
}

/// Rows [first, first + count) of a head = c · factor(m, half); c's rows start at the warp's `row`.
template <int kDim, int kM, class Factor>
__device__ __forceinline__ void store_rows(const float (&c)[kM][kDim / 8][4], const HeadResult& to,
                                           std::int64_t first, int count, int row, int head, Factor factor) {
#pragma unroll
  for (int m = 0; m < kM; ++m)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int own = row + fragment_row(m, half);
      if (own >= count) continue;
      const std::int64_t at = (first + own) * to.rows.pitch + head * kDim;
      const float by = factor(m, half);
#pragma unroll
      for (int n = 0; n < kDim / 8; ++n)
        store_pair(to, at + fragment_col(n, 0), c[m][n][2 * half] * by, c[m][n][2 * half + 1] * by);
    }
}

}  // namespace titan::cuda
