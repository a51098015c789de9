// The gradients of attention in f32 arithmetic, for every head size and dtype. Two kernels, so that no sum
// depends on timing: one makes dk and dv of a tile of keys from all queries that see it (the group's heads
// one after the other), the other dq of a tile of queries. Both compute the scores again: seven products a
// pair of tiles, not five.
#include "kernels/cuda/attention/general.h"
#include "kernels/cuda/attention/kernels.h"

namespace titan::cuda {
namespace {

constexpr int kMostTiles = 6;  ///< q, dout, k, v, dk, dv
constexpr int kColumns = 5;    ///< lse, delta, query position, document start, key position

/// The tiles of both sides in shared memory.
template <int kTile>
struct Tiles {
  GeneralTile<kTile> t;
  float *q, *dout, *k, *v, *scores, *lse, *delta;
  int *q_position, *doc_start, *k_position;
  float *first, *second;  ///< of the results

  __device__ __forceinline__ Tiles(float* memory, int dim) : t{dim} {
    const int floats = kTile * t.pitch();
    q = memory, dout = q + floats, k = dout + floats, v = k + floats, first = v + floats;
    second = first + floats;
    scores = memory + kMostTiles * floats;
    lse = scores + kTile * t.kScorePitch, delta = lse + kTile;
    q_position = reinterpret_cast<int*>(delta + kTile);
    doc_start = q_position + kTile, k_position = doc_start + kTile;
  }

  __device__ __forceinline__ void load_queries(const BackwardProblem& p, std::int64_t row, int count,
                                               int head) const {
    t.load(p.q, row, count, head, q);
    t.load(p.dout, row, count, head, dout);
    const int i = static_cast<int>(threadIdx.x);
    if (i >= kTile) return;
    const bool present = i < count;
    lse[i] = present ? p.lse[(row + i) * p.lse_pitch + head] : 0;
    delta[i] = present ? p.delta[(row + i) * p.delta_pitch + head] : 0;
    q_position[i] = present ? p.q_position[row + i] : INT_MIN;
    doc_start[i] = present ? p.doc_start[row + i] : INT_MAX;
  }

  __device__ __forceinline__ void load_keys(const BackwardProblem& p, std::int64_t row, int count,
                                            int head) const {
    t.load(p.k, row, count, head, k);
    t.load(p.v, row, count, head, v);
    const int i = static_cast<int>(threadIdx.x);
    if (i < kTile && i < count) k_position[i] = p.k_position[row + i];
  }

  using Scores = float[GeneralTile<kTile>::kRows][GeneralTile<kTile>::kCols];

  /// probability = exp(scale·q·k − lse), gradient = probability · (dout·v − delta), of visible pairs.
  __device__ __forceinline__ void pairs(float scale, int keys, Scores& probability, Scores& gradient) const {
    t.multiply(q, k, probability);
    t.multiply(dout, v, gradient);
#pragma unroll
    for (int i = 0; i < t.kRows; ++i)
#pragma unroll
      for (int j = 0; j < t.kCols; ++j) {
        const int row = t.row(i), col = t.col(j);
        const bool seen = col < keys && sees(doc_start[row], q_position[row], k_position[col]);
        probability[i][j] = seen ? expf(probability[i][j] * scale - lse[row]) : 0.0f;
        gradient[i][j] = seen ? probability[i][j] * (gradient[i][j] - delta[row]) : 0.0f;
      }
  }
};

template <int kTile>
__device__ __forceinline__ QueryRange query_range(const BackwardProblem& p, std::int64_t row, int count) {
  return {range_of(p.q_position + row, count, kTile), range_of(p.doc_start + row, count, kTile)};
}

template <int kTile>
__global__ void __launch_bounds__(kAttentionThreads, 2) general_key_gradients(BackwardProblem p) {
  TITAN_SHARED(TileList<>, lists, 1);
  TileList<>& list = lists[0];
  const Tiles<kTile> tiles(dynamic_shared<float>(), p.head_dim);
  const GeneralTile<kTile>& t = tiles.t;
  const int k_tiles = (p.k_length + kTile - 1) / kTile, q_tiles = (p.q_length + kTile - 1) / kTile;
  const BlockPlace place = block_place(p.kv_heads, k_tiles);  // causal: the first keys have the most queries
  const std::int64_t k_row = std::int64_t{place.sequence} * p.k_length + place.tile * kTile;
  const std::int64_t q_row = std::int64_t{place.sequence} * p.q_length;
  const int k_count = p.k_length - place.tile * kTile;
  const Range keys = range_of(p.k_position + k_row, k_count, kTile);
  tiles.load_keys(p, k_row, k_count, place.head);
  t.clear(tiles.first);
  t.clear(tiles.second);

  for (int chunk = 0; chunk < q_tiles; chunk += kChunkTiles) {
    const int met = list_tiles(list, chunk, q_tiles, [&](int tile) {
      return visible(query_range<kTile>(p, q_row + tile * kTile, p.q_length - tile * kTile), keys, false);
    });
    for (int i = 0; i < met * p.group; ++i) {
      const int first = list[i % met].tile * kTile, head = place.head * p.group + i / met;
      tiles.load_queries(p, q_row + first, p.q_length - first, head);
      __syncthreads();

      typename Tiles<kTile>::Scores probability, gradient;
      tiles.pairs(p.scale, k_count, probability, gradient);
      t.store_scores(probability, tiles.scores);
      __syncthreads();
      t.template add_product<1>(tiles.scores, tiles.dout, nullptr, tiles.second);
      __syncthreads();
      t.store_scores(gradient, tiles.scores);
      __syncthreads();
      t.template add_product<1>(tiles.scores, tiles.q, nullptr, tiles.first);
      __syncthreads();
    }
  }
  t.store(tiles.first, p.dk.rows, p.dk.add, k_row, k_count, place.head, [&](int) { return p.scale; });
  t.store(tiles.second, p.dv.rows, p.dv.add, k_row, k_count, place.head, [](int) { return 1.0f; });
}

template <int kTile>
__global__ void __launch_bounds__(kAttentionThreads, 2) general_query_gradient(BackwardProblem p) {
  TITAN_SHARED(TileList<>, lists, 1);
  TileList<>& list = lists[0];
  const Tiles<kTile> tiles(dynamic_shared<float>(), p.head_dim);
  const GeneralTile<kTile>& t = tiles.t;
  const int k_tiles = (p.k_length + kTile - 1) / kTile, q_tiles = (p.q_length + kTile - 1) / kTile;
  BlockPlace place = block_place(p.heads, q_tiles);
  place.tile = q_tiles - 1 - place.tile;
  const std::int64_t q_row = std::int64_t{place.sequence} * p.q_length + place.tile * kTile;
  const std::int64_t k_row = std::int64_t{place.sequence} * p.k_length;
  const int q_count = p.q_length - place.tile * kTile;
  const QueryRange queries = query_range<kTile>(p, q_row, q_count);
  tiles.load_queries(p, q_row, q_count, place.head);
  t.clear(tiles.first);

  for (int chunk = 0; chunk < k_tiles; chunk += kChunkTiles) {
    const int met = list_tiles(list, chunk, k_tiles, [&](int tile) {
      return visible(queries, range_of(p.k_position + k_row + tile * kTile, p.k_length - tile * kTile, kTile),
                     false);
    });
    for (int i = 0; i < met; ++i) {
      const int first = list[i].tile * kTile;
      tiles.load_keys(p, k_row + first, p.k_length - first, place.head / p.group);
      __syncthreads();
      typename Tiles<kTile>::Scores probability, gradient;
      tiles.pairs(p.scale, p.k_length - first, probability, gradient);
      t.store_scores(gradient, tiles.scores);
      __syncthreads();
      t.template add_product<t.kScorePitch>(tiles.scores, tiles.k, nullptr, tiles.first);
      __syncthreads();
    }
  }
  t.store(tiles.first, p.dq.rows, p.dq.add, q_row, q_count, place.head, [&](int) { return p.scale; });
}

}  // namespace

void attention_general(const BackwardProblem& p, cudaStream_t stream) {
  with_general_tile(kMostTiles, kColumns, p.head_dim, [&](auto tile) {
    const std::size_t shared = general_bytes(tile.value, kMostTiles, kColumns, p.head_dim);
    const std::int64_t k_blocks = ceil_div(p.k_length, tile.value) * p.kv_heads * p.sequences;
    const std::int64_t q_blocks = ceil_div(p.q_length, tile.value) * p.heads * p.sequences;
    launch(general_key_gradients<tile.value>, dim3(static_cast<unsigned>(k_blocks)), dim3(kAttentionThreads),
           shared, stream, p);
    launch(general_query_gradient<tile.value>, dim3(static_cast<unsigned>(q_blocks)), dim3(kAttentionThreads),
           shared, stream, p);
  });
}

}  // namespace titan::cuda
