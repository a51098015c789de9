// The gradients of attention on Hopper: two kernels as on other tensor cores (tensor_backward.cu), so that no
// sum depends on timing. A block has 128 rows of one side, its own, and goes through tiles of 64 rows of the
// other, which a thread brings by TMA two ahead: the kernel for keys owns k and v and goes through q and dout
// of the group's heads, the one for queries owns q and dout and goes through k and v. Products are wgmma's;
// the left side of those that end in a gradient is rounded to bf16 from registers, where the kernel for keys
// has the transposed scores.
#include "kernels/cuda/attention/hopper.h"
#include "kernels/cuda/attention/kernels.h"

namespace titan::cuda {
namespace {

constexpr int kOtherRows = 64, kScoreTiles = kOtherRows / 8;

/// Tensor maps of the own side's two matrices and the other's.
struct Maps {
  CUtensorMap own[2], other[2];
};

/// Shared memory: the own tiles, then a pair of tiles for each stage.
template <int kDim>
struct Pairs {
  static constexpr int kOwnSize = kOwnRows * kDim, kOtherSize = kOtherRows * kDim;  ///< elements
  static constexpr unsigned kOwnBytes = 2 * kOwnSize * sizeof(bf16),
                            kOtherBytes = 2 * kOtherSize * sizeof(bf16);
  static constexpr std::size_t kSharedBytes = kSwizzleBytes + kOwnBytes + kStages * kOtherBytes;

  bf16* const memory = first_tile();
  __device__ __forceinline__ bf16* own(int which) const { return memory + which * kOwnSize; }
  __device__ __forceinline__ bf16* other(int stage, int which) const {
    return memory + 2 * kOwnSize + (stage * 2 + which) * kOtherSize;
  }
};

/// In shared memory. Full: bytes have come; empty: all warps that multiply are done with them.
struct PairBarriers {
  std::uint64_t own, full[kStages], empty[kStages];

  __device__ __forceinline__ void init() {
    init_barrier(&own, 1);
    for (int s = 0; s < kStages; ++s) {
      init_barrier(&full[s], 1);
      init_barrier(&empty[s], kReleases);
    }
  }
};

/// Calls f(met) whenever the list holds the next `met` of `tiles` tiles: by the producer, which follows it.
template <class F>
__device__ __forceinline__ void follow_lists(ConsumerList& list, int tiles, F f) {
  for (int chunk = 0; chunk < tiles; chunk += kConsumerThreads) f(follow_list(list));
}

/// Brings the own tiles, and pair after pair of the other's: all that are met by head_of(0), then by
/// head_of(1), ...
template <int kDim, class HeadOf>
__device__ __forceinline__ void produce(const Maps& maps, const BlockPlace& place, const Pairs<kDim>& shared,
                                        PairBarriers& barriers, ConsumerList& list, int tiles, int rounds,
                                        HeadOf head_of) {
  const bool loads = threadIdx.x % kWarpGroup == 0;
  bool has_own = false;
  int n = 0;
  follow_lists(list, tiles, [&](int met) {
    if (!loads || met == 0) return;
    if (!has_own) {
      arrive_expecting(&barriers.own, Pairs<kDim>::kOwnBytes);
      for (int which = 0; which < 2; ++which)
        bring_tile<kDim, kOwnRows>(maps.own[which], place.head, place.tile * kOwnRows, place.sequence,
                                   shared.own(which), &barriers.own);
    }
    has_own = true;
    for (int i = 0; i < met * rounds; ++i, ++n) {
      const int s = stage_of(n), first = list[i % met].tile * kOtherRows, head = head_of(i / met);
      wait_parity(&barriers.empty[s], parity_of(n) ^ 1);
      arrive_expecting(&barriers.full[s], Pairs<kDim>::kOtherBytes);
      for (int which = 0; which < 2; ++which)
        bring_tile<kDim, kOtherRows>(maps.other[which], head, first, place.sequence, shared.other(s, which),
                                     &barriers.full[s]);
    }
  });
}

using Scores = float[1][kScoreTiles][4];
using Rounded = unsigned[1][kScoreTiles / 2][4];

/// What exp2 of a scaled score is divided by, as an exponent; rows behind the last have probability 0.
__device__ __forceinline__ float log2_sum(const BackwardProblem& p, std::int64_t row, int head,
                                          bool present) {
  return present ? p.lse[row * p.lse_pitch + head] * kLog2E : INFINITY;
}
__device__ __forceinline__ float delta_of(const BackwardProblem& p, std::int64_t row, int head,
                                          bool present) {
  return present ? p.delta[row * p.delta_pitch + head] : 0.0f;
}

/// Starts scores = own 0 · other 0ᵀ and gradients = own 1 · other 1ᵀ, a group each, when the tiles have come.
template <int kDim>
__device__ __forceinline__ void start_scores(const Pairs<kDim>& shared, PairBarriers& barriers, int n,
                                             Scores& scores, Scores& gradients) {
  const int s = stage_of(n);
  wait_parity(&barriers.full[s], parity_of(n));
  fence_group();
  start_rows_product<kDim>(shared.own(0), shared.other(s, 0), scores[0]);
  commit_group();
  fence_group();
  start_rows_product<kDim>(shared.own(1), shared.other(s, 1), gradients[0]);
  commit_group();
}

/// 64 keys of a group.
template <int kDim>
__device__ __forceinline__ void key_gradients(const BackwardProblem& p, const BlockPlace& place,
                                              const Pairs<kDim>& shared, PairBarriers& barriers,
                                              ConsumerList& list, float* statistics) {
  const std::int64_t k_row = std::int64_t{place.sequence} * p.k_length + place.tile * kOwnRows;
  const std::int64_t q_row = std::int64_t{place.sequence} * p.q_length;
  const int k_count = p.k_length - place.tile * kOwnRows, row = warp_number() * 16;
  const int thread = static_cast<int>(threadIdx.x) % kWarpGroup,
            tiles = (p.q_length + kOtherRows - 1) / kOtherRows;
  float* const own_statistics = statistics + group_number() * 4 * kOtherRows;
  float dk[1][kDim / 8][4], dv[1][kDim / 8][4];
  clear(dk);
  clear(dv);
  const float scale = p.scale * kLog2E;
  int n = 0, met = 0;

  /// log2_sum or delta_of one query of a tile: a number a thread.
  const auto statistic_of = [&](int i) {
    const int first = list[i % met].tile * kOtherRows, head = place.head * p.group + i / met;
    const int query = thread % kOtherRows;
    const bool present = first + query < p.q_length;
    return thread < kOtherRows ? log2_sum(p, q_row + first + query, head, present)
                               : delta_of(p, q_row + first + query, head, present);
  };
  /// Probabilities of pairs that are not visible become 0. Scores are transposed: rows are keys.
  const auto mask = [&](int first, Scores& probabilities) {
    int position[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int key = row + fragment_row(0, half);
      position[half] = key < k_count ? p.k_position[k_row + key] : INT_MAX;  // of no key: behind all queries
    }
    const std::int64_t queries = q_row + first + fragment_col(0, 0);
    const int left = p.q_length - first - fragment_col(0, 0);
#pragma unroll
    for (int t = 0; t < kScoreTiles; ++t)
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const bool present = t * 8 + i < left;
        const int start = present ? p.doc_start[queries + t * 8 + i] : 0;
        const int end = present ? p.q_position[queries + t * 8 + i] : INT_MIN;
#pragma unroll
        for (int half = 0; half < 2; ++half)
          if (!sees(start, end, position[half])) probabilities[0][t][2 * half + i] = 0;
      }
  };

  for (int chunk = 0; chunk < tiles; chunk += kConsumerThreads) {
    const Range keys = range_of(p.k_position + k_row, k_count, kOwnRows);
    met = list_tiles(list, chunk, tiles, [&](int tile) {
      const std::int64_t first = q_row + tile * kOtherRows;
      const int count = p.q_length - tile * kOtherRows;
      const QueryRange queries{range_of(p.q_position + first, count, kOtherRows),
                               range_of(p.doc_start + first, count, kOtherRows)};
      return visible(queries, keys, k_count >= kOwnRows);
    });
    if (met == 0) continue;
    if (n == 0) wait_parity(&barriers.own, 0);
    float statistic = statistic_of(0);
    for (int i = 0; i < met * p.group; ++i, ++n) {
      float* const buffer = own_statistics + n % 2 * 2 * kOtherRows;
      buffer[thread] = statistic;
      group_barrier(1 + group_number());
      if (i + 1 < met * p.group) statistic = statistic_of(i + 1);
      const int s = stage_of(n);
      Scores probabilities, gradients;
      start_scores<kDim>(shared, barriers, n, probabilities, gradients);
      wait_group<1>();
      arrived(probabilities[0]);
#pragma unroll
      for (int t = 0; t < kScoreTiles; ++t)
#pragma unroll
        for (int e = 0; e < 4; ++e)
          probabilities[0][t][e] = fast_exp2(probabilities[0][t][e] * scale - buffer[fragment_col(t, e)]);
      const Meeting meeting = list[i % met];
      if (meeting.masked) mask(meeting.tile * kOtherRows, probabilities);
      Rounded left;
      round_to_bf16(probabilities, left);
      fence_group();
      start_sums<kDim, kOtherRows>(left[0], shared.other(s, 1), dv[0]);
      commit_group();
      wait_group<1>();
      arrived(gradients[0]);
#pragma unroll
      for (int t = 0; t < kScoreTiles; ++t)
#pragma unroll
        for (int e = 0; e < 4; ++e)
          gradients[0][t][e] =
              probabilities[0][t][e] * (gradients[0][t][e] - buffer[kOtherRows + fragment_col(t, e)]);
      Rounded left_gradients;
      round_to_bf16(gradients, left_gradients);
      fence_group();
      start_sums<kDim, kOtherRows>(left_gradients[0], shared.other(s, 0), dk[0]);
      commit_group();
      wait_group<0>();
      arrived(dk[0]);
      arrived(dv[0]);
      arrived(left[0]);
      arrived(left_gradients[0]);
      release(&barriers.empty[s]);
    }
  }
  store_rows<kDim, 1>(dk, p.dk, k_row, k_count, row, place.head, [&](int, int) { return p.scale; });
  store_rows<kDim, 1>(dv, p.dv, k_row, k_count, row, place.head, [](int, int) { return 1.0f; });
}

/// 64 queries of a group.
template <int kDim>
__device__ __forceinline__ void query_gradient(const BackwardProblem& p, const BlockPlace& place,
                                               const Pairs<kDim>& shared, PairBarriers& barriers,
                                               ConsumerList& list) {
  const std::int64_t q_row = std::int64_t{place.sequence} * p.q_length + place.tile * kOwnRows;
  const std::int64_t k_row = std::int64_t{place.sequence} * p.k_length;
  const int q_count = p.q_length - place.tile * kOwnRows, row = warp_number() * 16;
  const int tiles = (p.k_length + kOtherRows - 1) / kOtherRows;
  float dq[1][kDim / 8][4], sum[2], delta[2];
  clear(dq);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int own = row + fragment_row(0, half);
    sum[half] = log2_sum(p, q_row + own, place.head, own < q_count);
    delta[half] = delta_of(p, q_row + own, place.head, own < q_count);
  }
  const float scale = p.scale * kLog2E;
  int n = 0;

  const auto mask = [&](int first, Scores& probabilities) {
    int start[2], end[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const std::int64_t query = q_row + min(row + fragment_row(0, half), q_count - 1);
      start[half] = p.doc_start[query], end[half] = p.q_position[query];
    }
    const std::int32_t* const keys = p.k_position + k_row + first + fragment_col(0, 0);
    const int left = p.k_length - first - fragment_col(0, 0);
#pragma unroll
    for (int t = 0; t < kScoreTiles; ++t)
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int position = t * 8 + i < left ? keys[t * 8 + i] : INT_MAX;  // of no key: behind all queries
#pragma unroll
        for (int half = 0; half < 2; ++half)
          if (!sees(start[half], end[half], position)) probabilities[0][t][2 * half + i] = 0;
      }
  };

  for (int chunk = 0; chunk < tiles; chunk += kConsumerThreads) {
    const QueryRange queries{range_of(p.q_position + q_row, q_count, kOwnRows),
                             range_of(p.doc_start + q_row, q_count, kOwnRows)};
    const int met = list_tiles(list, chunk, tiles, [&](int tile) {
      const int first = tile * kOtherRows, count = p.k_length - first;
      return visible(queries, range_of(p.k_position + k_row + first, count, kOtherRows), count >= kOtherRows);
    });
    if (met == 0) continue;
    if (n == 0) wait_parity(&barriers.own, 0);
    for (int i = 0; i < met; ++i, ++n) {
      const int s = stage_of(n);
      Scores probabilities, gradients;
      start_scores<kDim>(shared, barriers, n, probabilities, gradients);
      wait_group<1>();
      arrived(probabilities[0]);
#pragma unroll
      for (int t = 0; t < kScoreTiles; ++t)
#pragma unroll
        for (int e = 0; e < 4; ++e)
          probabilities[0][t][e] = fast_exp2(probabilities[0][t][e] * scale - sum[e / 2]);
      if (list[i].masked) mask(list[i].tile * kOtherRows, probabilities);
      wait_group<0>();
      arrived(gradients[0]);
#pragma unroll
      for (int t = 0; t < kScoreTiles; ++t)
#pragma unroll
        for (int e = 0; e < 4; ++e)
          gradients[0][t][e] = probabilities[0][t][e] * (gradients[0][t][e] - delta[e / 2]);
      Rounded left;
      round_to_bf16(gradients, left);
      fence_group();
      start_sums<kDim, kOtherRows>(left[0], shared.other(s, 0), dq[0]);
      commit_group();
      wait_group<0>();
      arrived(dq[0]);
      arrived(left[0]);
      release(&barriers.empty[s]);
    }
  }
  store_rows<kDim, 1>(dq, p.dq, q_row, q_count, row, place.head, [&](int, int) { return p.scale; });
}

template <int kDim>
__global__ void __launch_bounds__(kHopperThreads, 1)
    hopper_key_gradients(BackwardProblem p, const __grid_constant__ Maps maps) {
  if (!kOnHopper) return trap();
  TITAN_SHARED(ConsumerList, lists, 1);
  TITAN_SHARED(PairBarriers, barriers, 1);
  TITAN_SHARED(float, statistics, kConsumers * 4 * kOtherRows);  // of each group, twice: log2_sum, delta_of
  const Pairs<kDim> shared;
  // Causal: the first keys have the most queries.
  const BlockPlace place = block_place(p.kv_heads, (p.k_length + kOwnRows - 1) / kOwnRows);
  if (threadIdx.x == 0) {
    barriers[0].init();
    publish_barriers();
  }
  __syncthreads();
  if (group_number() == kConsumers) {
    give_registers<kProducerRegisters>();
    produce<kDim>(maps, place, shared, barriers[0], lists[0], (p.q_length + kOtherRows - 1) / kOtherRows,
                  p.group, [&](int round) { return place.head * p.group + round; });
  } else {
    take_registers<kConsumerRegisters>();
    key_gradients<kDim>(p, place, shared, barriers[0], lists[0], statistics);
  }
}

template <int kDim>
__global__ void __launch_bounds__(kHopperThreads, 1)
    hopper_query_gradient(BackwardProblem p, const __grid_constant__ Maps maps) {
  if (!kOnHopper) return trap();
  TITAN_SHARED(ConsumerList, lists, 1);
  TITAN_SHARED(PairBarriers, barriers, 1);
  const Pairs<kDim> shared;
  const int q_tiles = (p.q_length + kOwnRows - 1) / kOwnRows;
  BlockPlace place = block_place(p.heads, q_tiles);
  place.tile = q_tiles - 1 - place.tile;  // causal: those with the most keys first
  if (threadIdx.x == 0) {
    barriers[0].init();
    publish_barriers();
  }
  __syncthreads();
  if (group_number() == kConsumers) {
    give_registers<kProducerRegisters>();
    produce<kDim>(maps, place, shared, barriers[0], lists[0], (p.k_length + kOtherRows - 1) / kOtherRows, 1,
                  [&](int) { return place.head / p.group; });
  } else {
    take_registers<kConsumerRegisters>();
    query_gradient<kDim>(p, place, shared, barriers[0], lists[0]);
  }
}

template <int kDim>
void launch_backward(const BackwardProblem& p, cudaStream_t stream) {
  const auto of_queries = [&](const HeadRows& rows, int box) {
    return map_of(p, rows, p.heads, p.q_length, box);
  };
  const auto of_keys = [&](const HeadRows& rows, int box) {
    return map_of(p, rows, p.kv_heads, p.k_length, box);
  };
  const Maps for_keys{{of_keys(p.k, kOwnRows), of_keys(p.v, kOwnRows)},
                      {of_queries(p.q, kOtherRows), of_queries(p.dout, kOtherRows)}};
  const Maps for_queries{{of_queries(p.q, kOwnRows), of_queries(p.dout, kOwnRows)},
                         {of_keys(p.k, kOtherRows), of_keys(p.v, kOtherRows)}};
  const std::int64_t k_blocks = ceil_div(p.k_length, kOwnRows) * p.kv_heads * p.sequences;
  const std::int64_t q_blocks = ceil_div(p.q_length, kOwnRows) * p.heads * p.sequences;
  launch(hopper_key_gradients<kDim>, dim3(static_cast<unsigned>(k_blocks)), dim3(kHopperThreads),
         Pairs<kDim>::kSharedBytes, stream, p, for_keys);
  launch(hopper_query_gradient<kDim>, dim3(static_cast<unsigned>(q_blocks)), dim3(kHopperThreads),
         Pairs<kDim>::kSharedBytes, stream, p, for_queries);
}

}  // namespace

void attention_on_hopper(const BackwardProblem& p, cudaStream_t stream) {
  if (p.head_dim == 64)
    launch_backward<64>(p, stream);
  else
    launch_backward<128>(p, stream);
}

}  // namespace titan::cuda
