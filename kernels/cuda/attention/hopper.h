// What the Hopper kernels share. A block is two warp groups that multiply, 64 rows of the block's tile each,
// and a third of which one thread brings tiles by TMA into a ring of buffers. A tile in shared memory is
// halves of 64 columns, each rows of 128 bytes with a 128-byte swizzle.
#pragma once

#include "kernels/cuda/attention/tensor.h"
#include "kernels/cuda/base/hopper.h"

namespace titan::cuda {

constexpr int kConsumers = 2;  ///< warp groups that multiply
constexpr int kConsumerThreads = kWarpGroup * kConsumers, kHopperThreads = kConsumerThreads + kWarpGroup;
constexpr int kGroupRows = 64, kOwnRows = kGroupRows * kConsumers, kStages = 2;
constexpr int kConsumerRegisters = 240, kProducerRegisters = 24;

using ConsumerList = TileList<kConsumerThreads>;

/// Of the n-th tile: its buffer in the ring, and the parity of the ring's round.
__device__ __forceinline__ int stage_of(int n) { return n % kStages; }
__device__ __forceinline__ unsigned parity_of(int n) { return static_cast<unsigned>(n / kStages % 2); }

__device__ __forceinline__ int group_number() { return static_cast<int>(threadIdx.x) / kWarpGroup; }
/// Of a buffer in the ring: an arrival of each warp that multiplies. A warp's wait tells of its own products
/// alone.
constexpr unsigned kReleases = kConsumerThreads / kWarpSize;
__device__ __forceinline__ void release(std::uint64_t* barrier) {
  if (warp_lane() == 0) arrive(barrier);
}

/// The first place for tiles in the dynamic shared memory, which needs kSwizzleBytes more for it.
__device__ __forceinline__ bf16* first_tile() {
  const auto start = reinterpret_cast<std::uintptr_t>(dynamic_shared<std::byte>());
  return reinterpret_cast<bf16*>((start + kSwizzleBytes - 1) / kSwizzleBytes * kSwizzleBytes);
}

/// By one thread: rows [first, first + kRows) of a head into a tile.
template <int kDim, int kRows>
__device__ __forceinline__ void bring_tile(const CUtensorMap& map, int head, int first, int sequence,
                                           bf16* tile, std::uint64_t* barrier) {
#pragma unroll
  for (int half = 0; half < kDim / kBoxCols; ++half)
    load_box(map, head * kDim + half * kBoxCols, first, sequence, tile + half * kRows * kBoxCols, barrier);
}

/// c [64 x 8·N] = the group's rows of a · bᵀ: tiles of kDim columns, a of kOwnRows rows, b of 8·N. Starts.
template <int kDim, int kTiles>
__device__ __forceinline__ void start_rows_product(const bf16* a, const bf16* b, float (&c)[kTiles][4]) {
  const unsigned left = descriptor_address(a + group_number() * kGroupRows * kBoxCols),
                 right = descriptor_address(b);
#pragma unroll
  for (int k = 0; k < kDim / 16; ++k) {
    constexpr int kSteps = kBoxCols / 16;  // of a half
    const unsigned step = k % kSteps * 32, half = k / kSteps;
    multiply_group(c, descriptor(left + half * kOwnRows * 128 + step, 16, kSwizzleBytes),
                   descriptor(right + half * (8 * kTiles) * 128 + step, 16, kSwizzleBytes), k > 0);
  }
}

/// c [64 x kDim] += a [64 x kRows], rounded sums of an earlier product, · b, a tile of kRows rows. Starts.
template <int kDim, int kRows>
__device__ __forceinline__ void start_sums(const unsigned (&a)[kRows / 16][4], const bf16* b,
                                           float (&c)[kDim / 8][4]) {
  const unsigned right = descriptor_address(b);
#pragma unroll
  for (int k = 0; k < kRows / 16; ++k)
    multiply_group(c, a[k], descriptor(right + k * 2 * kSwizzleBytes, kRows * 128, kSwizzleBytes));
}

/// On the host: rows of all heads, a tensor [sequences, length, columns], so that tiles end where their
/// sequence does.
inline CUtensorMap map_of(const AttentionProblem& p, const HeadRows& rows, int heads, int length,
                          int box_rows) {
  const auto row_bytes = static_cast<std::int64_t>(rows.pitch * sizeof(bf16));
  return make_tensor_map({.data = rows.data,
                          .cols = std::int64_t{heads} * p.head_dim,
                          .rows = length,
                          .depth = p.sequences,
                          .row_bytes = row_bytes,
                          .depth_bytes = row_bytes * length,
                          .box_rows = box_rows});
}

}  // namespace titan::cuda
