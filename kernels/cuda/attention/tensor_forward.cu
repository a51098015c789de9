// Attention on tensor cores (FlashAttention-2, Dao 2023): a block makes 64·kM queries of one head, a warp
// 16·kM of them. Keys and values come in tiles of 64 into two buffers, one of which is filled while the other
// is used. Scores, the online softmax and the sums stay in registers; probabilities are rounded to bf16 for
// the product with the values, and their sum is of what they were before.
#include "kernels/cuda/attention/kernels.h"
#include "kernels/cuda/attention/tensor.h"

namespace titan::cuda {
namespace {

constexpr int kKeys = 64;    ///< of a tile
constexpr int kBuffers = 2;  ///< of keys and values

template <int kDim, int kM>
struct Forward {
  static constexpr int kQueries = 16 * kM * kAttentionWarps, kTiles = kKeys / 8;
  static constexpr std::size_t kSharedBytes =
      sizeof(bf16) * kDim * static_cast<std::size_t>(kQueries + kBuffers * 2 * kKeys);

  using Scores = float[kM][kTiles][4];
  float out[kM][kDim / 8][4];
  float max[kM][2], sum[kM][2];  ///< by row; each lane has its part of the sum

  __device__ __forceinline__ Forward() {
    clear(out);
#pragma unroll
    for (int m = 0; m < kM; ++m)
#pragma unroll
      for (int half = 0; half < 2; ++half) max[m][half] = -INFINITY, sum[m][half] = 0;
  }

  /// Scores become probabilities relative to the maximum so far, and what is there shrinks to it. `scale`
  /// has a factor of log2(e).
  __device__ __forceinline__ void softmax(Scores& scores, float scale) {
#pragma unroll
    for (int m = 0; m < kM; ++m)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float high = max[m][half];
#pragma unroll
        for (int n = 0; n < kTiles; ++n)
          high = fmaxf(high, fmaxf(scores[m][n][2 * half], scores[m][n][2 * half + 1]));
        high = fmaxf(high, __shfl_xor_sync(kFullWarp, high, 1));
        high = fmaxf(high, __shfl_xor_sync(kFullWarp, high, 2));
        const float base = high == -INFINITY ? 0.0f : high * scale;
        const float shrink = fast_exp2(max[m][half] * scale - base);
        max[m][half] = high;
        float added = 0;
#pragma unroll
        for (int n = 0; n < kTiles; ++n)
#pragma unroll
          for (int i = 2 * half; i < 2 * half + 2; ++i) {
            scores[m][n][i] = fast_exp2(scores[m][n][i] * scale - base);
            added += scores[m][n][i];
          }
        sum[m][half] = sum[m][half] * shrink + added;
#pragma unroll
        for (int n = 0; n < kDim / 8; ++n) out[m][n][2 * half] *= shrink, out[m][n][2 * half + 1] *= shrink;
      }
  }

  /// The sum of a row, in all lanes that share it.
  __device__ __forceinline__ float total(int m, int half) const {
    float all = sum[m][half];
    all += __shfl_xor_sync(kFullWarp, all, 1);
    return all + __shfl_xor_sync(kFullWarp, all, 2);
  }
};

template <int kDim, int kM>
__global__ void __launch_bounds__(kAttentionThreads) tensor_forward(ForwardProblem p) {
  using F = Forward<kDim, kM>;
  TITAN_SHARED(TileList<>, lists, 1);
  TileList<>& list = lists[0];
  bf16* const q = dynamic_shared<bf16>();
  const auto keys_of = [q](int i) { return q + kDim * (F::kQueries + i % kBuffers * 2 * kKeys); };
  const auto values_of = [&](int i) { return keys_of(i) + kDim * kKeys; };

  const int tiles = (p.q_length + F::kQueries - 1) / F::kQueries;
  BlockPlace place = block_place(p.heads, tiles);
  place.tile = tiles - 1 - place.tile;  // causal: those with the most keys first
  const int kv_head = place.head / p.group, q_count = p.q_length - place.tile * F::kQueries;
  const std::int64_t q_row = std::int64_t{place.sequence} * p.q_length + place.tile * F::kQueries;
  const std::int64_t k_row = std::int64_t{place.sequence} * p.k_length;
  const int keys = key_count(p), row = warp_number() * 16 * kM;

  const auto load_keys = [&](int i) {
    const int first = list[i].tile * kKeys;
    load_tile<kDim, kKeys>(p.k, k_row + first, keys - first, kv_head, keys_of(i));
    load_tile<kDim, kKeys>(p.v, k_row + first, keys - first, kv_head, values_of(i));
    copy_async_commit();
  };
  /// Pairs that are not visible get −∞.
  const auto mask = [&](int first, typename F::Scores& scores) {
    int position[kM][2], start[kM][2];
#pragma unroll
    for (int m = 0; m < kM; ++m)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int at = min(row + fragment_row(m, half), q_count - 1);
        position[m][half] = p.q_position[q_row + at];
        start[m][half] = p.doc_start[q_row + at];
      }
#pragma unroll
    for (int n = 0; n < F::kTiles; ++n)
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int key = first + fragment_col(n, i), k_position = p.k_position[k_row + min(key, keys - 1)];
#pragma unroll
        for (int m = 0; m < kM; ++m)
#pragma unroll
          for (int half = 0; half < 2; ++half)
            if (key >= keys || !sees(start[m][half], position[m][half], k_position))
              scores[m][n][2 * half + i] = -INFINITY;
      }
  };

  load_tile<kDim, F::kQueries>(p.q, q_row, q_count, place.head, q);
  F own;
  const float scale = p.scale * kLog2E;
  const int k_tiles = (keys + kKeys - 1) / kKeys;
  for (int chunk = 0; chunk < k_tiles; chunk += kChunkTiles) {
    const QueryRange queries{range_of(p.q_position + q_row, q_count, F::kQueries),
                             range_of(p.doc_start + q_row, q_count, F::kQueries)};
    const int met = list_tiles(list, chunk, k_tiles, [&](int tile) {
      const int first = tile * kKeys, count = keys - first;
      return visible(queries, range_of(p.k_position + k_row + first, count, kKeys), count >= kKeys);
    });
    if (met > 0) load_keys(0);
    for (int i = 0; i < met; ++i) {
      copy_async_wait<0>();
      __syncthreads();
      if (i + 1 < met) load_keys(i + 1);
      if (row >= q_count) continue;  // a warp without queries
      typename F::Scores scores;
      clear(scores);
      multiply_rows<kDim, kM, kKeys>(q, row, keys_of(i), scores);
      if (list[i].masked) mask(list[i].tile * kKeys, scores);
      own.softmax(scores, scale);
      unsigned probabilities[kM][F::kTiles / 2][4];
      round_to_bf16(scores, probabilities);
      add_product<kDim, kM, kKeys>(probabilities, values_of(i), own.out);
    }
  }
  copy_async_wait<0>();

  float inverse[kM][2];
#pragma unroll
  for (int m = 0; m < kM; ++m)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float sum = own.total(m, half);
      inverse[m][half] = sum > 0 ? 1 / sum : 0.0f;
      const int at = row + fragment_row(m, half);
      if (at < q_count && warp_lane() % 4 == 0)
        p.lse[(q_row + at) * p.lse_pitch + place.head] =
            sum > 0 ? (own.max[m][half] * scale + log2f(sum)) * kLn2 : -INFINITY;
    }
  store_rows<kDim, kM>(own.out, {p.out, false}, q_row, q_count, row, place.head,
                       [&](int m, int half) { return inverse[m][half]; });
}

template <int kDim, int kM>
void launch_forward(const ForwardProblem& p, cudaStream_t stream) {
  using F = Forward<kDim, kM>;
  const std::int64_t blocks = ceil_div(p.q_length, F::kQueries) * p.heads * p.sequences;
  launch(tensor_forward<kDim, kM>, dim3(static_cast<unsigned>(blocks)), dim3(kAttentionThreads),
         F::kSharedBytes, stream, p);
}

}  // namespace

void attention_on_tensor_cores(const ForwardProblem& p, cudaStream_t stream) {
  if (p.head_dim == 64)
    launch_forward<64, 2>(p, stream);
  else
    launch_forward<128, 1>(p, stream);  // with 2, sums and scores do not fit into registers
}

}  // namespace titan::cuda
