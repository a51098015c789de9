// Flash attention backward on bf16 dot products: as backward.cc, but a tile of scores and of V · dOᵀ is made
// in registers and leaves them as rounded probabilities and score gradients, in the orders that the three
// products which follow read.
#include "kernels/cpu/attention/bf16_tile.h"
#include "kernels/cpu/attention/tables.h"

namespace titan::cpu::TITAN_ISA {
namespace {

constexpr int kQueryPairs = kQueryBlock / 2;

/// A block of queries: q and dout as pairs along the head dimension [steps, kQueryBlock], and along the
/// queries [kQueryPairs, ld]; dq transposed [ld, kQueryBlock].
struct Queries {
  QueryBlock block;
  float lse[kQueryBlock], delta[kQueryBlock];  ///< lse in base 2
  uint32_t *q_t, *dout_t, *q, *dout;
  float* dq;
};

/// A block of keys: rows of pairs [padded, pairs], and pairs of rows of k [padded / 2, ld].
struct KeyTile {
  KeyPositions positions;
  uint32_t *k, *v, *k_pairs;
};

/// Rounded probabilities and score gradients: by key [keys, kQueryPairs], gradients also as pairs of keys
/// [keys / 2, kQueryBlock].
struct Scores {
  uint32_t *p, *ds, *ds_pairs;
};

void load_queries(const BackwardTask& task, int64_t first, int count, uint32_t* rows, Queries* queries) {
  QueryBlock& block = queries->block;
  const int width = task.q.width, ld = round_up(width, kRowMultiple), pairs = pair_columns(width);
  const int steps = (width + 1) / 2;
  load_positions(task.queries, task.q.group, first, count, &block);
  load_pair_rows(task.q, first, count, block.padded, rows, pairs);
  transpose_pairs(rows, pairs, block.padded, steps, queries->q_t);
  pair_rows(rows, pairs, block.padded, ld, queries->q);
  load_pair_rows(task.dout, first, count, block.padded, rows, pairs);
  transpose_pairs(rows, pairs, block.padded, steps, queries->dout_t);
  pair_rows(rows, pairs, block.padded, ld, queries->dout);
  memset(queries->dq, 0, sizeof(float) * (size_t)(ld * kQueryBlock));
  load_statistics(task, first, count, block.padded, queries->lse, queries->delta);
}

/// Four keys from `key` on against kVectors vectors of queries from `column` on.
template <int kVectors>
TITAN_INLINE void score_tile(const Queries& queries, const KeyTile& keys, int steps, int pairs, float scale,
                             int key, int column, const Scores& out) {
  constexpr int kKeys = 4;
  vfloat score[kKeys][kVectors] = {}, dp[kKeys][kVectors] = {};
  const uint32_t *k = keys.k + key * pairs, *v = keys.v + key * pairs;
  const uint32_t *q = queries.q_t + column, *dout = queries.dout_t + column;
  for (int s = 0; s < steps; ++s, q += kQueryBlock, dout += kQueryBlock) {
    __m512i x[kVectors], y[kVectors];
#pragma GCC unroll 4
    for (int i = 0; i < kVectors; ++i) {
      x[i] = _mm512_loadu_si512(q + i * kWidth);
      y[i] = _mm512_loadu_si512(dout + i * kWidth);
    }
#pragma GCC unroll 4
    for (int r = 0; r < kKeys; ++r)
#pragma GCC unroll 4
      for (int i = 0; i < kVectors; ++i) {
        score[r][i] = multiply_add(k[r * pairs + s], x[i], score[r][i]);
        dp[r][i] = multiply_add(v[r * pairs + s], y[i], dp[r][i]);
      }
  }
#pragma GCC unroll 4
  for (int i = 0; i < kVectors; ++i) {
    const int at = column + i * kWidth;
    const vfloat lse = load(queries.lse + at), delta = load(queries.delta + at);
    vfloat ds[kKeys];
#pragma GCC unroll 4
    for (int r = 0; r < kKeys; ++r) {
      vfloat p = fast_exp2(score[r][i] * scale - lse);
      if (keys.positions.masked)
        p = select(sees(keys.positions.position[key + r], queries.block, at), p, vfloat{});
      ds[r] = p * (dp[r][i] - delta);
      store_rounded(out.p + (key + r) * kQueryPairs + at / 2, p);
      store_rounded(out.ds + (key + r) * kQueryPairs + at / 2, ds[r]);
    }
#pragma GCC unroll 2
    for (int r = 0; r < kKeys; r += 2)
      _mm512_storeu_si512(out.ds_pairs + (key + r) / 2 * kQueryBlock + at, interleave(ds[r], ds[r + 1]));
  }
}

void score_block(const Queries& queries, const KeyTile& keys, int steps, int pairs, float scale,
                 const Scores& out) {
  int column = 0;
  for (; column + 3 * kWidth <= queries.block.padded; column += 3 * kWidth)
    for (int key = 0; key < keys.positions.padded; key += 4)
      score_tile<3>(queries, keys, steps, pairs, scale, key, column, out);
  for (; column < queries.block.padded; column += kWidth)
    for (int key = 0; key < keys.positions.padded; key += 4)
      score_tile<1>(queries, keys, steps, pairs, scale, key, column, out);
}

void backward(const BackwardTask& task) {
  const int width = task.q.width, ld = round_up(width, kRowMultiple), pairs = pair_columns(width);
  const int steps = (width + 1) / 2;
  const KeyBlock &first_keys = task.keys.blocks[0], &last_keys = task.keys.blocks[task.keys.block_count - 1];
  const int64_t key_count = last_keys.first + last_keys.count - first_keys.first;
  const int64_t key_floats = task.want_dkv ? (key_count + kTileRows - 1) / kTileRows * kTileRows * ld : 0;
  float* next = task.scratch;
  const auto take = [&next](int64_t floats) {
    float* const taken = next;
    next += floats;
    return taken;
  };
  const auto take_pairs = [&take](int64_t count) { return (uint32_t*)take(count); };
  uint32_t* const rows = take_pairs(kQueryBlock * pairs);
  KeyTile keys;
  keys.k = take_pairs(kMaxKeyBlock * pairs);
  keys.v = take_pairs(kMaxKeyBlock * pairs);
  keys.k_pairs = take_pairs(kMaxKeyBlock / 2 * ld);
  Queries queries;
  queries.q_t = take_pairs(pairs * kQueryBlock);
  queries.dout_t = take_pairs(pairs * kQueryBlock);
  queries.q = take_pairs(kQueryPairs * ld);
  queries.dout = take_pairs(kQueryPairs * ld);
  queries.dq = take(ld * kQueryBlock);
  float* const dq_rows = take(kQueryBlock * ld);
  Scores scores;
  scores.p = take_pairs(kMaxKeyBlock * kQueryPairs);
  scores.ds = take_pairs(kMaxKeyBlock * kQueryPairs);
  scores.ds_pairs = take_pairs(kMaxKeyBlock / 2 * kQueryBlock);
  float* const dk = take(key_floats);
  float* const dv = take(key_floats);
  memset(dk, 0, sizeof(float) * (size_t)key_floats * 2);
  float factor[kQueryBlock];
  for (float& f : factor) f = task.scale;

  for (int64_t first = task.first_query; first < task.first_query + task.query_count; first += kQueryBlock) {
    const int64_t left = task.first_query + task.query_count - first;
    const int count = left < kQueryBlock ? (int)left : kQueryBlock;
    load_queries(task, first, count, rows, &queries);
    const int padded = queries.block.padded;
    for (int64_t b = 0; b < task.keys.block_count; ++b) {
      const KeyBlock& block = task.keys.blocks[b];
      const Visible seen = visible(queries.block, block);
      if (seen == Visible::none) continue;
      load_key_positions(task.keys, block, seen, &keys.positions);
      const int padded_keys = keys.positions.padded;
      load_pair_rows(task.k, block.first, block.count, padded_keys, keys.k, pairs);
      load_pair_rows(task.v, block.first, block.count, padded_keys, keys.v, pairs);
      score_block(queries, keys, steps, pairs, task.scale * kLog2e, scores);
      if (task.want_dkv) {
        const int64_t at = (block.first - first_keys.first) * ld;
        product<false>(padded_keys, ld / kWidth, padded / 2, scores.p, kQueryPairs, queries.dout, ld, dv + at,
                       ld);
        product<false>(padded_keys, ld / kWidth, padded / 2, scores.ds, kQueryPairs, queries.q, ld, dk + at,
                       ld);
      }
      if (task.want_dq) {
        pair_rows(keys.k, pairs, padded_keys, ld, keys.k_pairs);
        product<true>(ld, padded / kWidth, padded_keys / 2, keys.k_pairs, ld, scores.ds_pairs, kQueryBlock,
                      queries.dq, kQueryBlock);
      }
    }
    if (!task.want_dq) continue;
    transpose_scaled(queries.dq, padded, ld, factor, dq_rows);
    store_columns(task.dq, first, count, dq_rows, ld, task.add_dq, [](int) { return 1.0f; });
  }

  if (!task.want_dkv) return;
  for (int64_t b = 0; b < task.keys.block_count; ++b) {
    const KeyBlock& block = task.keys.blocks[b];
    const int64_t at = (block.first - first_keys.first) * ld;
    store_columns(task.dk, block.first, block.count, dk + at, ld, task.add_dk,
                  [&](int) { return task.scale; });
    store_columns(task.dv, block.first, block.count, dv + at, ld, task.add_dv, [](int) { return 1.0f; });
  }
}

}  // namespace

void attention_backward(const BackwardTask& task) {
  const bool bf16 = task.q.dtype == DType::bf16 && task.k.dtype == DType::bf16 &&
                    task.v.dtype == DType::bf16 && task.dout.dtype == DType::bf16;
  (bf16 ? backward : avx512::kAttentionKernels.backward)(task);
}

}  // namespace titan::cpu::TITAN_ISA
