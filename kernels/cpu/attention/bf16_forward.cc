// Flash attention forward on bf16 dot products: as forward.cc, but the operands of both products stay bf16,
// the probabilities are rounded to it, and the output is kept transposed, [head_dim, queries], so that
// rescaling is by whole vectors. The scale is applied to f32 scores.
#include "kernels/cpu/attention/bf16_tile.h"
#include "kernels/cpu/attention/tables.h"

namespace titan::cpu::TITAN_ISA {
namespace {

// Scores are finite: below every score that training makes, and hidden ones below that.
constexpr float kLowest = -1e29f, kHidden = -1e30f;

/// Running softmax statistics of a block of queries; max is of unscaled scores.
struct Statistics {
  float max[kQueryBlock], sum[kQueryBlock], shrink[kQueryBlock];
};

struct Operands {
  const uint32_t *q, *k;  ///< q [pairs, kQueryBlock], k [keys, k_ld]
  int steps, k_ld;
};

/// scores [keys, kQueryBlock] of kVectors vectors of queries from `column` on; top takes their maxima in.
template <int kVectors>
TITAN_INLINE void score_columns(const Operands& x, const QueryBlock& queries, const KeyPositions& keys,
                                int column, float* scores, float* top) {
  vfloat high[kVectors];
#pragma GCC unroll 4
  for (int v = 0; v < kVectors; ++v) high[v] = load(top + column + v * kWidth);
  for (int key = 0; key < keys.padded; key += kTileRows) {
    vfloat sum[kTileRows][kVectors] = {};
    accumulate<false>(x.steps, x.k + key * x.k_ld, x.k_ld, x.q + column, kQueryBlock, sum);
#pragma GCC unroll 8
    for (int r = 0; r < kTileRows; ++r)
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        const int at = column + v * kWidth;
        vfloat s = sum[r][v];
        if (keys.masked) s = select(sees(keys.position[key + r], queries, at), s, broadcast(kHidden));
        high[v] = max(high[v], s);
        store(scores + (key + r) * kQueryBlock + at, s);
      }
  }
#pragma GCC unroll 4
  for (int v = 0; v < kVectors; ++v) store(top + column + v * kWidth, high[v]);
}

void score_block(const Operands& x, const QueryBlock& queries, const KeyPositions& keys, float* scores,
                 float* top) {
  int column = 0;
  for (; column + 3 * kWidth <= queries.padded; column += 3 * kWidth)
    score_columns<3>(x, queries, keys, column, scores, top);
  for (; column < queries.padded; column += kWidth) score_columns<1>(x, queries, keys, column, scores, top);
}

/// One vector of queries: pairs of probabilities, and the statistics that take them in.
TITAN_INLINE void softmax(const float* scores, int keys, int column, float scale, vfloat top,
                          Statistics* statistics, uint32_t* pairs) {
  const vfloat before = load(statistics->max + column), shift = top * scale;
  vfloat total[2] = {};
  for (int key = 0; key < keys; key += 2) {
    const float* const s = scores + key * kQueryBlock + column;
    const vfloat even = fast_exp2(load(s) * scale - shift),
                 odd = fast_exp2(load(s + kQueryBlock) * scale - shift);
    total[0] += even;
    total[1] += odd;
    _mm512_storeu_si512(pairs + key / 2 * kQueryBlock + column, interleave(even, odd));
  }
  const vfloat shrink = fast_exp2((before - top) * scale);  // exactly 1 when nothing changed
  store(statistics->max + column, top);
  store(statistics->sum + column, load(statistics->sum + column) * shrink + (total[0] + total[1]));
  store(statistics->shrink + column, shrink);
}

void forward(const ForwardTask& task) {
  const int width = task.q.width, ld = round_up(width, kRowMultiple), pairs = pair_columns(width);
  const int steps = (width + 1) / 2;
  const float scale = task.scale * kLog2e;
  float* next = task.scratch;
  const auto take = [&next](int floats) {
    float* const taken = next;
    next += floats;
    return taken;
  };
  const auto take_pairs = [&take](int count) { return (uint32_t*)take(count); };
  uint32_t* const rows = take_pairs(kQueryBlock * pairs);  // of q, then of v
  uint32_t* const q = take_pairs(pairs * kQueryBlock);
  uint32_t* const k = take_pairs(kMaxKeyBlock * pairs);
  uint32_t* const v = take_pairs(kMaxKeyBlock / 2 * ld);
  uint32_t* const probabilities = take_pairs(kMaxKeyBlock / 2 * kQueryBlock);
  float* const scores = take((ld > kMaxKeyBlock ? ld : kMaxKeyBlock) * kQueryBlock);
  float* const out = take(ld * kQueryBlock);

  QueryBlock block;
  load_positions(task.queries, task.q.group, task.first_query, task.query_count, &block);
  load_pair_rows(task.q, block.first, block.count, block.padded, rows, pairs);
  transpose_pairs(rows, pairs, block.padded, steps, q);
  memset(out, 0, sizeof(float) * (size_t)(ld * kQueryBlock));
  Statistics statistics;
  for (int i = 0; i < block.padded; ++i) {
    statistics.max[i] = kLowest;
    statistics.sum[i] = 0;
  }

  for (int64_t b = 0; b < task.keys.block_count; ++b) {
    const Visible seen = visible(block, task.keys.blocks[b]);
    if (seen == Visible::none) continue;
    const int64_t first = task.keys.blocks[b].first;
    const int count = task.keys.blocks[b].count;
    KeyPositions keys;
    load_key_positions(task.keys, task.keys.blocks[b], seen, &keys);
    load_pair_rows(task.k, first, count, keys.padded, k, pairs);
    load_pair_rows(task.v, first, count, keys.padded, rows, pairs);
    pair_rows(rows, pairs, keys.padded, ld, v);
    float top[kQueryBlock];
    memcpy(top, statistics.max, sizeof top);
    score_block({q, k, steps, pairs}, block, keys, scores, top);
    for (int column = 0; column < block.padded; column += kWidth)
      softmax(scores, keys.padded, column, scale, load(top + column), &statistics, probabilities);
    product<true>(ld, block.padded / kWidth, keys.padded / 2, v, ld, probabilities, kQueryBlock, out,
                  kQueryBlock, statistics.shrink);
  }

  float factor[kQueryBlock];
  for (int i = 0; i < block.padded; ++i) factor[i] = statistics.sum[i] == 0 ? 0.0f : 1 / statistics.sum[i];
  float* const out_rows = scores;  // [kQueryBlock, ld]
  transpose_scaled(out, block.padded, ld, factor, out_rows);
  store_columns(task.out, block.first, block.count, out_rows, ld, false, [](int) { return 1.0f; });
  for_each_column<float>(task.lse, block.first, block.count, [&](float* lse, int i) {
    *lse = statistics.sum[i] == 0 ? -kInfinity
                                  : statistics.max[i] * task.scale + __builtin_logf(statistics.sum[i]);
  });
}

}  // namespace

void attention_forward(const ForwardTask& task) {
  const bool bf16 = task.q.dtype == DType::bf16 && task.k.dtype == DType::bf16 && task.v.dtype == DType::bf16;
  (bf16 ? forward : avx512::kAttentionKernels.forward)(task);
}

}  // namespace titan::cpu::TITAN_ISA
