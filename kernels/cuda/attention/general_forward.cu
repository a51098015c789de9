// Attention in f32 arithmetic, for every head size and dtype. A block makes a tile of queries of one head:
// for each tile of keys that it sees, scores, an online softmax (Milakov & Gimelshein 2018) and the product
// with the values, all in shared memory. Keys and values are read once for each tile of queries.
#include "kernels/cuda/attention/general.h"
#include "kernels/cuda/attention/kernels.h"

namespace titan::cuda {
namespace {

constexpr int kTiles = 3;    ///< queries; keys, then values; out
constexpr int kColumns = 4;  ///< shrink, query position, document start, key position

/// Running maximum and this thread's part of the sum of a row, which kSplit neighbouring threads share.
template <int kTile>
struct RowStatistics {
  static constexpr int kSplit = kAttentionThreads / kTile;
  int row = static_cast<int>(threadIdx.x) / kSplit, part = static_cast<int>(threadIdx.x) % kSplit;
  float max = -INFINITY, sum = 0;

  __device__ __forceinline__ float total() const {
    float all = sum;
#pragma unroll
    for (int bits = kSplit / 2; bits > 0; bits /= 2) all += __shfl_xor_sync(kFullWarp, all, bits);
    return all;
  }

  /// Scores become probabilities relative to the maximum so far; returns what earlier ones shrink by.
  __device__ __forceinline__ float add(float* scores) {
    float* const own = scores + row * GeneralTile<kTile>::kScorePitch + part;
    float high = max;
    for (int c = 0; c < kTile; c += kSplit) high = fmaxf(high, own[c]);
#pragma unroll
    for (int bits = kSplit / 2; bits > 0; bits /= 2)
      high = fmaxf(high, __shfl_xor_sync(kFullWarp, high, bits));
    const float base = high == -INFINITY ? 0.0f : high, shrink = expf(max - base);
    max = high;
    sum *= shrink;
    for (int c = 0; c < kTile; c += kSplit) {
      own[c] = expf(own[c] - base);
      sum += own[c];
    }
    return shrink;
  }
};

template <int kTile>
__global__ void __launch_bounds__(kAttentionThreads, 2) general_forward(ForwardProblem p) {
  TITAN_SHARED(TileList<>, lists, 1);
  TileList<>& list = lists[0];
  const GeneralTile<kTile> t{p.head_dim};
  const int tile_floats = kTile * t.pitch(), thread = static_cast<int>(threadIdx.x);
  float* const q = dynamic_shared<float>();
  float *const kv = q + tile_floats, *const out = kv + tile_floats, *const scores = out + tile_floats;
  float* const shrink = scores + kTile * t.kScorePitch;
  int* const q_position = reinterpret_cast<int*>(shrink + kTile);
  int *const doc_start = q_position + kTile, *const k_position = doc_start + kTile;

  const int tiles = (p.q_length + kTile - 1) / kTile;
  BlockPlace place = block_place(p.heads, tiles);
  place.tile = tiles - 1 - place.tile;  // causal: those with the most keys first
  const int kv_head = place.head / p.group, q_count = p.q_length - place.tile * kTile;
  const std::int64_t q_row = std::int64_t{place.sequence} * p.q_length + place.tile * kTile;
  const std::int64_t k_row = std::int64_t{place.sequence} * p.k_length;
  const int keys = key_count(p);

  const QueryRange queries{range_of(p.q_position + q_row, q_count, kTile),
                           range_of(p.doc_start + q_row, q_count, kTile)};
  t.load(p.q, q_row, q_count, place.head, q);
  t.clear(out);
  if (thread < kTile) {
    q_position[thread] = thread < q_count ? p.q_position[q_row + thread] : INT_MIN;
    doc_start[thread] = thread < q_count ? p.doc_start[q_row + thread] : INT_MAX;
  }

  RowStatistics<kTile> statistics;
  const int k_tiles = (keys + kTile - 1) / kTile;
  for (int chunk = 0; chunk < k_tiles; chunk += kChunkTiles) {
    const int met = list_tiles(list, chunk, k_tiles, [&](int tile) {
      return visible(queries, range_of(p.k_position + k_row + tile * kTile, keys - tile * kTile, kTile),
                     false);
    });
    for (int i = 0; i < met; ++i) {
      const int first = list[i].tile * kTile, count = keys - first;
      t.load(p.k, k_row + first, count, kv_head, kv);
      if (thread < kTile && thread < count) k_position[thread] = p.k_position[k_row + first + thread];
      __syncthreads();

      float score[t.kRows][t.kCols];
      t.multiply(q, kv, score);
#pragma unroll
      for (int r = 0; r < t.kRows; ++r)
#pragma unroll
        for (int c = 0; c < t.kCols; ++c) {
          const int row = t.row(r), col = t.col(c);
          const bool seen = col < count && sees(doc_start[row], q_position[row], k_position[col]);
          score[r][c] = seen ? score[r][c] * p.scale : -INFINITY;
        }
      t.store_scores(score, scores);
      __syncthreads();

      t.load(p.v, k_row + first, count, kv_head, kv);
      const float by = statistics.add(scores);
      if (statistics.part == 0) shrink[statistics.row] = by;
      __syncthreads();

      t.template add_product<t.kScorePitch>(scores, kv, shrink, out);
      __syncthreads();
    }
  }

  const float sum = statistics.total();
  if (statistics.part == 0) {
    shrink[statistics.row] = sum > 0 ? 1 / sum : 0.0f;
    if (statistics.row < q_count)
      p.lse[(q_row + statistics.row) * p.lse_pitch + place.head] =
          sum > 0 ? statistics.max + logf(sum) : -INFINITY;
  }
  __syncthreads();
  t.store(out, p.out, false, q_row, q_count, place.head, [&](int row) { return shrink[row]; });
}

}  // namespace

void attention_general(const ForwardProblem& p, cudaStream_t stream) {
  with_general_tile(kTiles, kColumns, p.head_dim, [&](auto tile) {
    const std::int64_t blocks = ceil_div(p.q_length, tile.value) * p.heads * p.sequences;
    launch(general_forward<tile.value>, dim3(static_cast<unsigned>(blocks)), dim3(kAttentionThreads),
           general_bytes(tile.value, kTiles, kColumns, p.head_dim), stream, p);
  });
}

}  // namespace titan::cuda
