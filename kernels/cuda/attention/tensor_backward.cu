// The gradients of attention on tensor cores. Two kernels, so that no sum depends on timing: one makes dk and
// dv of 64 keys from all queries that see them (the group's heads one after the other), the other dq of 64
// queries. Both compute the scores again: seven products a pair of tiles, where a sum of dq in an order of
// its own would need five. The other side's tiles come into two buffers, one of which is filled while the
// other is used. The left side of each product is rounded to bf16 from registers: the kernel for keys works
// on the transposed scores, so that neither probabilities nor their gradients go through shared memory.
#include "kernels/cuda/attention/kernels.h"
#include "kernels/cuda/attention/tensor.h"

namespace titan::cuda {
namespace {

constexpr int kRows = 64;                           ///< of a tile, on both sides
constexpr int kScoreTiles = kRows / 8, kWarpM = 1;  ///< fragments of a warp's scores
constexpr int kBuffers = 2;
static_assert(kRows == 16 * kWarpM * kAttentionWarps);

/// A pair of tiles for the own side and kBuffers pairs for the other: q and dout, k and v.
template <int kDim>
struct Tiles {
  static constexpr int kElements = kDim * kRows;
  static constexpr std::size_t kBytes = sizeof(bf16) * kElements * 2 * (1 + kBuffers);
  bf16* memory = dynamic_shared<bf16>();
  __device__ __forceinline__ bf16* own(int which) const { return memory + which * kElements; }
  __device__ __forceinline__ bf16* other(int i, int which) const {
    return memory + ((1 + i % kBuffers) * 2 + which) * kElements;
  }
};

using Scores = float[kWarpM][kScoreTiles][4];
using Rounded = unsigned[kWarpM][kScoreTiles / 2][4];

__device__ __forceinline__ QueryRange query_range(const BackwardProblem& p, std::int64_t row, int count) {
  return {range_of(p.q_position + row, count, kRows), range_of(p.doc_start + row, count, kRows)};
}

/// What exp2 of a scaled score is divided by, as an exponent; rows behind the last have probability 0.
__device__ __forceinline__ float log2_sum(const BackwardProblem& p, std::int64_t row, int head,
                                          bool present) {
  return present ? p.lse[row * p.lse_pitch + head] * kLog2E : INFINITY;
}
__device__ __forceinline__ float delta_of(const BackwardProblem& p, std::int64_t row, int head,
                                          bool present) {
  return present ? p.delta[row * p.delta_pitch + head] : 0.0f;
}

template <int kDim>
__global__ void __launch_bounds__(kAttentionThreads) tensor_key_gradients(BackwardProblem p) {
  TITAN_SHARED(TileList<>, lists, 1);
  TITAN_SHARED(float, statistics, kBuffers * 2 * kRows);  // log2_sum, then delta_of, of a tile's queries
  TileList<>& list = lists[0];
  const Tiles<kDim> tiles;
  const int k_tiles = (p.k_length + kRows - 1) / kRows, q_tiles = (p.q_length + kRows - 1) / kRows;
  const BlockPlace place = block_place(p.kv_heads, k_tiles);  // causal: the first keys have the most queries
  const std::int64_t k_row = std::int64_t{place.sequence} * p.k_length + place.tile * kRows;
  const std::int64_t q_row = std::int64_t{place.sequence} * p.q_length;
  const int k_count = p.k_length - place.tile * kRows, row = warp_number() * 16;
  const int thread = static_cast<int>(threadIdx.x);

  float statistic = 0;  // of the tile that is on its way: one number a thread
  int met = 0;
  const auto load_queries = [&](int i) {
    const int first = list[i % met].tile * kRows, head = place.head * p.group + i / met;
    const int count = p.q_length - first, query = thread % kRows;
    load_tile<kDim, kRows>(p.q, q_row + first, count, head, tiles.other(i, 0));
    load_tile<kDim, kRows>(p.dout, q_row + first, count, head, tiles.other(i, 1));
    copy_async_commit();
    statistic = thread < kRows ? log2_sum(p, q_row + first + query, head, query < count)
                               : delta_of(p, q_row + first + query, head, query < count);
  };
  /// Probabilities of pairs that are not visible become 0. Scores are transposed: rows are keys.
  const auto mask = [&](int first, Scores& probabilities) {
    int position[2];
#pragma unroll
    for (int half = 0; half < 2; ++half)
      position[half] = p.k_position[k_row + min(row + fragment_row(0, half), k_count - 1)];
#pragma unroll
    for (int n = 0; n < kScoreTiles; ++n)
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const std::int64_t query = q_row + min(first + fragment_col(n, i), p.q_length - 1);
        const int start = p.doc_start[query], end = p.q_position[query];
#pragma unroll
        for (int half = 0; half < 2; ++half)
          if (row + fragment_row(0, half) >= k_count || !sees(start, end, position[half]))
            probabilities[0][n][2 * half + i] = 0;
      }
  };

  load_tile<kDim, kRows>(p.k, k_row, k_count, place.head, tiles.own(0));
  load_tile<kDim, kRows>(p.v, k_row, k_count, place.head, tiles.own(1));
  float dk[kWarpM][kDim / 8][4], dv[kWarpM][kDim / 8][4];
  clear(dk);
  clear(dv);
  const float scale = p.scale * kLog2E;
  for (int chunk = 0; chunk < q_tiles; chunk += kChunkTiles) {
    const Range keys = range_of(p.k_position + k_row, k_count, kRows);
    met = list_tiles(list, chunk, q_tiles, [&](int tile) {
      const QueryRange queries = query_range(p, q_row + tile * kRows, p.q_length - tile * kRows);
      return visible(queries, keys, k_count >= kRows);
    });
    if (met > 0) load_queries(0);
    for (int i = 0; i < met * p.group; ++i) {
      float* const buffer = statistics + i % kBuffers * 2 * kRows;
      buffer[thread] = statistic;
      copy_async_wait<0>();
      __syncthreads();
      if (i + 1 < met * p.group) load_queries(i + 1);
      if (row >= k_count) continue;  // a warp without keys
      const bf16 *const q = tiles.other(i, 0), *const dout = tiles.other(i, 1);

      Scores probabilities;
      clear(probabilities);
      multiply_rows<kDim, kWarpM, kRows>(tiles.own(0), row, q, probabilities);
#pragma unroll
      for (int n = 0; n < kScoreTiles; ++n)
#pragma unroll
        for (int e = 0; e < 4; ++e)
          probabilities[0][n][e] = fast_exp2(probabilities[0][n][e] * scale - buffer[fragment_col(n, e)]);
      const Meeting meeting = list[i % met];
      if (meeting.masked) mask(meeting.tile * kRows, probabilities);
      Rounded left;
      round_to_bf16(probabilities, left);
      add_product<kDim, kWarpM, kRows>(left, dout, dv);

      Scores gradients;
      clear(gradients);
      multiply_rows<kDim, kWarpM, kRows>(tiles.own(1), row, dout, gradients);
#pragma unroll
      for (int n = 0; n < kScoreTiles; ++n)
#pragma unroll
        for (int e = 0; e < 4; ++e)
          gradients[0][n][e] =
              probabilities[0][n][e] * (gradients[0][n][e] - buffer[kRows + fragment_col(n, e)]);
      round_to_bf16(gradients, left);
      add_product<kDim, kWarpM, kRows>(left, q, dk);
    }
  }
  copy_async_wait<0>();
  store_rows<kDim, kWarpM>(dk, p.dk, k_row, k_count, row, place.head, [&](int, int) { return p.scale; });
  store_rows<kDim, kWarpM>(dv, p.dv, k_row, k_count, row, place.head, [](int, int) { return 1.0f; });
}

template <int kDim>
__global__ void __launch_bounds__(kAttentionThreads) tensor_query_gradient(BackwardProblem p) {
  TITAN_SHARED(TileList<>, lists, 1);
  TileList<>& list = lists[0];
  const Tiles<kDim> tiles;
  const int k_tiles = (p.k_length + kRows - 1) / kRows, q_tiles = (p.q_length + kRows - 1) / kRows;
  BlockPlace place = block_place(p.heads, q_tiles);
  place.tile = q_tiles - 1 - place.tile;  // causal: those with the most keys first
  const std::int64_t q_row = std::int64_t{place.sequence} * p.q_length + place.tile * kRows;
  const std::int64_t k_row = std::int64_t{place.sequence} * p.k_length;
  const int q_count = p.q_length - place.tile * kRows, row = warp_number() * 16;

  const auto load_keys = [&](int i) {
    const int first = list[i].tile * kRows, kv_head = place.head / p.group;
    load_tile<kDim, kRows>(p.k, k_row + first, p.k_length - first, kv_head, tiles.other(i, 0));
    load_tile<kDim, kRows>(p.v, k_row + first, p.k_length - first, kv_head, tiles.other(i, 1));
    copy_async_commit();
  };
  const auto mask = [&](int first, Scores& probabilities) {
    int start[2], end[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const std::int64_t query = q_row + min(row + fragment_row(0, half), q_count - 1);
      start[half] = p.doc_start[query], end[half] = p.q_position[query];
    }
#pragma unroll
    for (int n = 0; n < kScoreTiles; ++n)
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int key = first + fragment_col(n, i), position = p.k_position[k_row + min(key, p.k_length - 1)];
#pragma unroll
        for (int half = 0; half < 2; ++half)
          if (key >= p.k_length || !sees(start[half], end[half], position))
            probabilities[0][n][2 * half + i] = 0;
      }
  };

  load_tile<kDim, kRows>(p.q, q_row, q_count, place.head, tiles.own(0));
  load_tile<kDim, kRows>(p.dout, q_row, q_count, place.head, tiles.own(1));
  float sum[2], delta[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int own = row + fragment_row(0, half);
    sum[half] = log2_sum(p, q_row + own, place.head, own < q_count);
    delta[half] = delta_of(p, q_row + own, place.head, own < q_count);
  }
  float dq[kWarpM][kDim / 8][4];
  clear(dq);
  const float scale = p.scale * kLog2E;
  for (int chunk = 0; chunk < k_tiles; chunk += kChunkTiles) {
    const QueryRange queries = query_range(p, q_row, q_count);
    const int met = list_tiles(list, chunk, k_tiles, [&](int tile) {
      const int first = tile * kRows, count = p.k_length - first;
      return visible(queries, range_of(p.k_position + k_row + first, count, kRows), count >= kRows);
    });
    if (met > 0) load_keys(0);
    for (int i = 0; i < met; ++i) {
      copy_async_wait<0>();
      __syncthreads();
      if (i + 1 < met) load_keys(i + 1);
      if (row >= q_count) continue;  // a warp without queries
      const bf16 *const k = tiles.other(i, 0), *const v = tiles.other(i, 1);

      Scores probabilities, gradients;
      clear(probabilities);
      multiply_rows<kDim, kWarpM, kRows>(tiles.own(0), row, k, probabilities);
#pragma unroll
      for (int n = 0; n < kScoreTiles; ++n)
#pragma unroll
        for (int e = 0; e < 4; ++e)
          probabilities[0][n][e] = fast_exp2(probabilities[0][n][e] * scale - sum[e / 2]);
      if (list[i].masked) mask(list[i].tile * kRows, probabilities);
      clear(gradients);
      multiply_rows<kDim, kWarpM, kRows>(tiles.own(1), row, v, gradients);
#pragma unroll
      for (int n = 0; n < kScoreTiles; ++n)
#pragma unroll
        for (int e = 0; e < 4; ++e)
          gradients[0][n][e] = probabilities[0][n][e] * (gradients[0][n][e] - delta[e / 2]);
      Rounded left;
      round_to_bf16(gradients, left);
      add_product<kDim, kWarpM, kRows>(left, k, dq);
    }
  }
  copy_async_wait<0>();
  store_rows<kDim, kWarpM>(dq, p.dq, q_row, q_count, row, place.head, [&](int, int) { return p.scale; });
}

template <int kDim>
void launch_backward(const BackwardProblem& p, cudaStream_t stream) {
  const std::int64_t k_blocks = ceil_div(p.k_length, kRows) * p.kv_heads * p.sequences;
  const std::int64_t q_blocks = ceil_div(p.q_length, kRows) * p.heads * p.sequences;
  launch(tensor_key_gradients<kDim>, dim3(static_cast<unsigned>(k_blocks)), dim3(kAttentionThreads),
         Tiles<kDim>::kBytes, stream, p);
  launch(tensor_query_gradient<kDim>, dim3(static_cast<unsigned>(q_blocks)), dim3(kAttentionThreads),
         Tiles<kDim>::kBytes, stream, p);
}

}  // namespace

void attention_on_tensor_cores(const BackwardProblem& p, cudaStream_t stream) {
  if (p.head_dim == 64)
    launch_backward<64>(p, stream);
  else
    launch_backward<128>(p, stream);
}

}  // namespace titan::cuda
