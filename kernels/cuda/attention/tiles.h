// Tiles of queries against tiles of keys: which pairs of tiles have to do with each other. A block lists the
// tiles that its own one meets, a chunk at a time, and then works through the list. Tiles that the mask
// excludes wholly cost a look at their positions only.
#pragma once

#include <climits>

#include "kernels/cuda/attention/problem.h"
#include "kernels/cuda/base/reduce.h"
#include "kernels/cuda/dialect.h"

#ifndef __CUDACC__
#include <algorithm>
#include <bit>
#endif

namespace titan::cuda {

#ifndef __CUDACC__
using std::min;
#endif

constexpr int kAttentionThreads = 128;
constexpr int kAttentionWarps = kAttentionThreads / kWarpSize;
/// Tiles that are looked at together; they make one list.
constexpr int kChunkTiles = kAttentionThreads;

#ifdef __CUDACC__
__device__ __forceinline__ int warp_min(int x) { return __reduce_min_sync(kFullWarp, x); }
__device__ __forceinline__ int warp_max(int x) { return __reduce_max_sync(kFullWarp, x); }
__device__ __forceinline__ int count_bits(unsigned x) { return __popc(x); }
#else
template <class Choose>
int warp_choice(int x, Choose choose) {
  std::byte all[32][16];
  host::exchange(kFullWarp, &x, sizeof x, all);
  for (const auto& lane : all) {
    int other;
    std::memcpy(&other, lane, sizeof other);
    x = choose(x, other);
  }
  return x;
}
inline int warp_min(int x) {
  return warp_choice(x, [](int a, int b) { return std::min(a, b); });
}
inline int warp_max(int x) {
  return warp_choice(x, [](int a, int b) { return std::max(a, b); });
}
inline int count_bits(unsigned x) { return std::popcount(x); }
#endif

/// The least and the greatest of a tile's numbers; low > high when it is empty.
struct Range {
  int low, high;
};

/// The range of x[0..count), of which the first `rows` count; by a whole warp.
__device__ __forceinline__ Range range_of(const std::int32_t* x, int count, int rows) {
  Range range{INT_MAX, INT_MIN};
  const int end = count < rows ? count : rows;
  for (int i = static_cast<int>(threadIdx.x) % kWarpSize; i < end; i += kWarpSize) {
    range.low = x[i] < range.low ? x[i] : range.low;
    range.high = x[i] > range.high ? x[i] : range.high;
  }
  return {warp_min(range.low), warp_max(range.high)};
}

struct QueryRange {
  Range position, doc_start;
};

/// Of the pairs of two tiles.
enum class Visible { none, some, all };

/// May say `some` for none or all of them. `all_keys`: the tile has no rows behind the last key.
__device__ __forceinline__ Visible visible(const QueryRange& queries, const Range& keys, bool all_keys) {
  if (keys.high < queries.doc_start.low || keys.low > queries.position.high) return Visible::none;
  if (all_keys && keys.low >= queries.doc_start.high && keys.high <= queries.position.low)
    return Visible::all;
  return Visible::some;
}

__device__ __forceinline__ bool sees(int doc_start, int q_position, int k_position) {
  return doc_start <= k_position && k_position <= q_position;
}

/// A tile that the own one meets.
struct Meeting {
  int tile;
  bool masked;  ///< some of the pairs are not visible
};

/// In shared memory. kThreads look at as many tiles together; the block may have more threads. Tile
/// first + kWarps·l + w is that of lane l of warp w: a few tiles are looked at by all warps.
template <int kThreads = kAttentionThreads>
struct TileList {
  static constexpr int kWarps = kThreads / kWarpSize;
  int entries[kThreads];
  unsigned met[kWarps];  ///< lanes whose tile is listed

  __device__ __forceinline__ Meeting operator[](int i) const {
    return {entries[i] >> 1, (entries[i] & 1) != 0};
  }
  __device__ __forceinline__ int size() const {
    int all = 0;
    for (const unsigned lanes : met) all += count_bits(lanes);
    return all;
  }
  /// Where the tile of that lane and warp is listed.
  __device__ __forceinline__ int place_of(int lane, int warp) const {
    int before = 0;
    for (int w = 0; w < kWarps; ++w) before += count_bits(met[w] & (((w < warp ? 2u : 1u) << lane) - 1));
    return before;
  }
  /// All threads of the block wait for each other, whether they list or follow.
  __device__ __forceinline__ void wait_for_all() { __syncthreads(); }
};

/// Lists tiles [first, min(first + kThreads, end)) in order and returns how many there are. look(tile)
/// says Visible, asked of whole warps. The block's first kThreads call it, the others follow_list(); the list
/// may be read after it, and written again after the reader's next barrier.
template <int kThreads, class Look>
__device__ __forceinline__ int list_tiles(TileList<kThreads>& list, int first, int end, Look look) {
  constexpr int kWarps = TileList<kThreads>::kWarps;
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize,
            warp = static_cast<int>(threadIdx.x) / kWarpSize;
  Visible own = Visible::none;
  for (int l = 0; l < kWarpSize; ++l) {
    const int tile = first + l * kWarps + warp;
    if (tile >= end) break;
    const Visible seen = look(tile);
    if (l == lane) own = seen;
  }
  const unsigned met = __ballot_sync(kFullWarp, own != Visible::none);
  if (lane == 0) list.met[warp] = met;
  list.wait_for_all();
  if (own != Visible::none)
    list.entries[list.place_of(lane, warp)] =
        (first + lane * kWarps + warp) * 2 + (own == Visible::some ? 1 : 0);
  const int size = list.size();
  list.wait_for_all();
  return size;
}

/// What the block's other threads call meanwhile.
template <int kThreads>
__device__ __forceinline__ int follow_list(TileList<kThreads>& list) {
  list.wait_for_all();
  const int size = list.size();
  list.wait_for_all();
  return size;
}

/// Keys of a sequence that may be read.
__device__ __forceinline__ int key_count(const AttentionProblem& p) {
  if (p.kv_length == nullptr) return p.k_length;
  const int count = *p.kv_length < p.k_length ? *p.kv_length : p.k_length;
  return count < 0 ? 0 : count;
}

/// The block's tile, head and sequence. Heads are fastest: heads of one group run together and share keys in
/// the cache.
struct BlockPlace {
  int tile, head, sequence;
};
__device__ __forceinline__ BlockPlace block_place(int heads, int tiles) {
  const int block = static_cast<int>(blockIdx.x);
  return {block / heads % tiles, block % heads, block / heads / tiles};
}

}  // namespace titan::cuda
