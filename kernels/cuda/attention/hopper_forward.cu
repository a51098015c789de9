// Attention on Hopper (after FlashAttention-3, Shah and others 2024): a block makes 128 queries of one head.
// Two warp groups of 64 queries each multiply with wgmma; one thread of a third brings tiles of 128 keys and
// values by TMA, two ahead. While a group's tensor cores add the values of one tile, it works on the scores
// of the next. Scores, the online softmax and the sums stay in registers, of which the third group gives most
// of its own away; probabilities are rounded to bf16 for the product with the values, and their sum is of
// what they were before.
#include "kernels/cuda/attention/hopper.h"
#include "kernels/cuda/attention/kernels.h"

namespace titan::cuda {
namespace {

constexpr int kQueries = kOwnRows, kKeys = 128, kKeyTiles = kKeys / 8;

struct TensorMaps {
  CUtensorMap q, k, v;
};

/// Shared memory behind the tiles' boundary: queries, keys of each stage, values of each. A tile is halves of
/// 64 columns.
template <int kDim>
struct Layout {
  static constexpr int kQuerySize = kQueries * kDim, kKeySize = kKeys * kDim;  ///< elements
  static constexpr unsigned kQueryBytes = kQuerySize * sizeof(bf16), kKeyBytes = kKeySize * sizeof(bf16);
  static constexpr std::size_t kSharedBytes = kSwizzleBytes + kQueryBytes + 2 * kStages * kKeyBytes;

  bf16* const queries = first_tile();
  __device__ __forceinline__ bf16* keys(int stage) const { return queries + kQuerySize + stage * kKeySize; }
  __device__ __forceinline__ bf16* values(int stage) const { return keys(kStages + stage); }
};

/// In shared memory. Full: bytes have come; empty: all warps that multiply are done with them.
struct Barriers {
  std::uint64_t queries, keys_full[kStages], keys_empty[kStages], values_full[kStages], values_empty[kStages];

  __device__ __forceinline__ void init() {
    init_barrier(&queries, 1);
    for (int s = 0; s < kStages; ++s) {
      init_barrier(&keys_full[s], 1);
      init_barrier(&values_full[s], 1);
      init_barrier(&keys_empty[s], kReleases);
      init_barrier(&values_empty[s], kReleases);
    }
  }
};

/// What a block works on.
struct Work {
  BlockPlace place;
  int q_count, keys;
  std::int64_t q_row, k_row;

  __device__ __forceinline__ explicit Work(const ForwardProblem& p) {
    const int tiles = (p.q_length + kQueries - 1) / kQueries;
    place = block_place(p.heads, tiles);
    place.tile = tiles - 1 - place.tile;  // causal: those with the most keys first
    q_count = p.q_length - place.tile * kQueries;
    q_row = std::int64_t{place.sequence} * p.q_length + place.tile * kQueries;
    k_row = std::int64_t{place.sequence} * p.k_length;
    keys = p.k_length;
  }
};

/// Calls f(met) whenever the list holds the next `met` tiles of keys. Consumers make the list, the producer
/// follows.
template <bool kMakes, class F>
__device__ __forceinline__ void for_each_list(const ForwardProblem& p, const Work& work, ConsumerList& list,
                                              F f) {
  const int tiles = (work.keys + kKeys - 1) / kKeys;
  for (int chunk = 0; chunk < tiles; chunk += kConsumerThreads) {
    if constexpr (!kMakes) {
      f(follow_list(list));
      continue;
    }
    const QueryRange queries{range_of(p.q_position + work.q_row, work.q_count, kQueries),
                             range_of(p.doc_start + work.q_row, work.q_count, kQueries)};
    f(list_tiles(list, chunk, tiles, [&](int tile) {
      const int first = tile * kKeys, count = work.keys - first;
      return visible(queries, range_of(p.k_position + work.k_row + first, count, kKeys), count >= kKeys);
    }));
  }
}

template <int kDim>
__device__ __forceinline__ void produce(const ForwardProblem& p, const Work& work, const TensorMaps& maps,
                                        const Layout<kDim>& shared, Barriers& barriers, ConsumerList& list) {
  const bool loads = threadIdx.x % kWarpGroup == 0;
  const int sequence = work.place.sequence, kv_head = work.place.head / p.group;
  bool has_queries = false;
  int n = 0;
  for_each_list<false>(p, work, list, [&](int met) {
    if (!loads || met == 0) return;
    if (!has_queries) {
      arrive_expecting(&barriers.queries, Layout<kDim>::kQueryBytes);
      bring_tile<kDim, kQueries>(maps.q, work.place.head, work.place.tile * kQueries, sequence,
                                 shared.queries, &barriers.queries);
    }
    has_queries = true;
    for (int i = 0; i < met; ++i, ++n) {
      const int s = stage_of(n), first = list[i].tile * kKeys;
      const unsigned before = parity_of(n) ^ 1;
      wait_parity(&barriers.keys_empty[s], before);
      arrive_expecting(&barriers.keys_full[s], Layout<kDim>::kKeyBytes);
      bring_tile<kDim, kKeys>(maps.k, kv_head, first, sequence, shared.keys(s), &barriers.keys_full[s]);
      wait_parity(&barriers.values_empty[s], before);
      arrive_expecting(&barriers.values_full[s], Layout<kDim>::kKeyBytes);
      bring_tile<kDim, kKeys>(maps.v, kv_head, first, sequence, shared.values(s), &barriers.values_full[s]);
    }
  });
}

/// A group's 64 queries; a thread has two rows of its warp's 16.
template <int kDim>
struct Consumer {
  using Scores = float[1][kKeyTiles][4];
  const ForwardProblem& p;
  const Work& work;
  const Layout<kDim>& shared;
  Barriers& barriers;
  int row;  ///< of the warp's first among the block's
  float scale;
  int keys = 0, values = 0;  ///< tiles that scores and sums are done with
  bool has_queries = false;
  Scores scores;
  float out[1][kDim / 8][4];
  unsigned probabilities[1][kKeyTiles / 2][4];
  float max[2] = {-INFINITY, -INFINITY}, sum[2] = {0, 0}, shrink[2];

  __device__ __forceinline__ Consumer(const ForwardProblem& p_, const Work& work_,
                                      const Layout<kDim>& shared_, Barriers& barriers_)
      : p(p_),
        work(work_),
        shared(shared_),
        barriers(barriers_),
        row(warp_number() * 16),
        scale(p_.scale * kLog2E) {
    clear(out);
  }

  /// Starts scores = queries · keysᵀ.
  __device__ __forceinline__ void start_scores() {
    wait_parity(&barriers.keys_full[stage_of(keys)], parity_of(keys));
    fence_group();
    start_rows_product<kDim>(shared.queries, shared.keys(stage_of(keys)), scores[0]);
    commit_group();
  }
  /// Starts out += probabilities · values.
  __device__ __forceinline__ void start_out() {
    wait_parity(&barriers.values_full[stage_of(values)], parity_of(values));
    fence_group();
    start_sums<kDim, kKeys>(probabilities[0], shared.values(stage_of(values)), out[0]);
    commit_group();
  }

  __device__ __forceinline__ void release_keys() {
    release(&barriers.keys_empty[stage_of(keys)]);
    ++keys;
  }
  __device__ __forceinline__ void release_values() {
    release(&barriers.values_empty[stage_of(values)]);
    ++values;
  }

  /// Pairs that are not visible get −∞.
  __device__ __forceinline__ void mask(int first) {
    int position[2], start[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const std::int64_t at = work.q_row + min(row + fragment_row(0, half), work.q_count - 1);
      position[half] = p.q_position[at];
      start[half] = p.doc_start[at];
    }
    const std::int32_t* const keys_here = p.k_position + work.k_row + first + fragment_col(0, 0);
    const int left = work.keys - first - fragment_col(0, 0);
#pragma unroll
    for (int n = 0; n < kKeyTiles; ++n)
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int k_position =
            n * 8 + i < left ? keys_here[n * 8 + i] : INT_MAX;  // of no key: behind all queries
#pragma unroll
        for (int half = 0; half < 2; ++half)
          if (!sees(start[half], position[half], k_position)) scores[0][n][2 * half + i] = -INFINITY;
      }
  }

  /// Scores become probabilities relative to the maximum so far; `shrink` is what out then shrinks by.
  __device__ __forceinline__ void softmax() {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float high = max[half];
#pragma unroll
      for (int n = 0; n < kKeyTiles; ++n)
        high = fmaxf(high, fmaxf(scores[0][n][2 * half], scores[0][n][2 * half + 1]));
      high = fmaxf(high, __shfl_xor_sync(kFullWarp, high, 1));
      high = fmaxf(high, __shfl_xor_sync(kFullWarp, high, 2));
      const float base = high == -INFINITY ? 0.0f : high * scale;
      shrink[half] = fast_exp2(max[half] * scale - base);
      max[half] = high;
      float added = 0;
#pragma unroll
      for (int n = 0; n < kKeyTiles; ++n)
#pragma unroll
        for (int i = 2 * half; i < 2 * half + 2; ++i) {
          scores[0][n][i] = fast_exp2(scores[0][n][i] * scale - base);
          added += scores[0][n][i];
        }
      sum[half] = sum[half] * shrink[half] + added;
    }
  }
  /// Of a tile whose scores are there.
  __device__ __forceinline__ void make_probabilities(Meeting tile) {
    release_keys();
    if (tile.masked) mask(tile.tile * kKeys);
    softmax();
  }
  __device__ __forceinline__ void shrink_sums() {
#pragma unroll
    for (int n = 0; n < kDim / 8; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) out[0][n][i] *= shrink[i / 2];
  }

  __device__ __forceinline__ void work_through(const ConsumerList& list, int met) {
    if (met == 0) return;
    if (!has_queries) wait_parity(&barriers.queries, 0);
    has_queries = true;
    start_scores();
    wait_group<0>();
    arrived(scores[0]);
    make_probabilities(list[0]);
    shrink_sums();
    round_to_bf16(scores, probabilities);
    for (int i = 1; i < met; ++i) {
      start_scores();
      start_out();  // of tile i − 1
      wait_group<1>();
      arrived(scores[0]);
      make_probabilities(list[i]);
      wait_group<0>();
      arrived(out[0]);
      arrived(probabilities[0]);
      release_values();
      shrink_sums();
      round_to_bf16(scores, probabilities);
    }
    start_out();
    wait_group<0>();
    arrived(out[0]);
    release_values();
  }

  __device__ __forceinline__ void store() const {
    float inverse[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float all = sum[half];
      all += __shfl_xor_sync(kFullWarp, all, 1);
      all += __shfl_xor_sync(kFullWarp, all, 2);
      inverse[half] = all > 0 ? 1 / all : 0.0f;
      const int at = row + fragment_row(0, half);
      if (at < work.q_count && warp_lane() % 4 == 0)
        p.lse[(work.q_row + at) * p.lse_pitch + work.place.head] =
            all > 0 ? (max[half] * scale + log2f(all)) * kLn2 : -INFINITY;
    }
    store_rows<kDim, 1>(out, {p.out, false}, work.q_row, work.q_count, row, work.place.head,
                        [&](int, int half) { return inverse[half]; });
  }
};

template <int kDim>
__global__ void __launch_bounds__(kHopperThreads, 1)
    hopper_forward(ForwardProblem p, const __grid_constant__ TensorMaps maps) {
  if (!kOnHopper) return trap();
  TITAN_SHARED(ConsumerList, lists, 1);
  TITAN_SHARED(Barriers, all_barriers, 1);
  Barriers& barriers = all_barriers[0];
  const Layout<kDim> shared;
  const Work work(p);
  if (threadIdx.x == 0) {
    barriers.init();
    publish_barriers();
  }
  __syncthreads();
  if (group_number() == kConsumers) {
    give_registers<kProducerRegisters>();
    produce(p, work, maps, shared, barriers, lists[0]);
  } else {
    take_registers<kConsumerRegisters>();
    Consumer<kDim> consumer(p, work, shared, barriers);
    for_each_list<true>(p, work, lists[0], [&](int met) { consumer.work_through(lists[0], met); });
    consumer.store();
  }
}

template <int kDim>
void launch_forward(const ForwardProblem& p, cudaStream_t stream) {
  const TensorMaps maps{map_of(p, p.q, p.heads, p.q_length, kQueries),
                        map_of(p, p.k, p.kv_heads, p.k_length, kKeys),
                        map_of(p, p.v, p.kv_heads, p.k_length, kKeys)};
  const std::int64_t blocks = ceil_div(p.q_length, kQueries) * p.heads * p.sequences;
  launch(hopper_forward<kDim>, dim3(static_cast<unsigned>(blocks)), dim3(kHopperThreads),
         Layout<kDim>::kSharedBytes, stream, p, maps);
}

}  // namespace

void attention_on_hopper(const ForwardProblem& p, cudaStream_t stream) {
  if (p.head_dim == 64)
    launch_forward<64>(p, stream);
  else
    launch_forward<128>(p, stream);
}

}  // namespace titan::cuda
