// Flash attention, forward (Dao et al. 2022; the online softmax is Milakov & Gimelshein 2018). Scores are
// kept transposed, [keys, queries]: a vector holds one key and several queries, so that maxima and sums of a
// softmax run down columns. All in base 2: log2(e) is folded into the scale of q.
#include "kernels/cpu/attention/block.h"
#include "kernels/cpu/attention/kernels.h"
#include "kernels/cpu/attention/matmul.h"
#include "kernels/cpu/attention/tables.h"

namespace titan::cpu::TITAN_ISA {
namespace {

constexpr float kLowest = -3e38f;  // below every score, and finite: −inf − kLowest is no NaN

/// Running softmax statistics of a block of queries, in base 2.
struct Statistics {
  float max[kQueryBlock], sum[kQueryBlock];
};

/// score becomes exp2(score − max).
TITAN_INLINE vfloat exponential(float* score, vfloat max) {
  const vfloat p = exp2_or_zero(load(score) - max);
  store(score, p);
  return p;
}

/// scores [keys, kQueryBlock], one vector of queries from `column`: scores become exp2(score − max), the
/// statistics take them in. Returns by how much earlier sums shrink.
TITAN_INLINE vfloat softmax(float* scores, int keys, int column, Statistics* statistics) {
  const vfloat before = load(statistics->max + column);
  vfloat top[2] = {before, before}, total[2] = {};  // two of each: half the latency
  const int pairs = keys / 2 * 2;
  for (int key = 0; key < pairs; key += 2)
#pragma GCC unroll 2
    for (int i = 0; i < 2; ++i) top[i] = max(top[i], load(scores + (key + i) * kQueryBlock));
  if (pairs < keys) top[0] = max(top[0], load(scores + pairs * kQueryBlock));
  const vfloat after = max(top[0], top[1]);

  for (int key = 0; key < pairs; key += 2)
#pragma GCC unroll 2
    for (int i = 0; i < 2; ++i) total[i] += exponential(scores + (key + i) * kQueryBlock, after);
  if (pairs < keys) total[0] += exponential(scores + pairs * kQueryBlock, after);

  const vfloat shrink = exp2_or_zero(before - after);
  store(statistics->max + column, after);
  store(statistics->sum + column, load(statistics->sum + column) * shrink + (total[0] + total[1]));
  return shrink;
}

/// Rows of out [kWidth, ld] shrink by the lanes of `factors`.
TITAN_INLINE void rescale(vfloat factors, int rows, float* out, int ld) {
  float factor[kWidth];
  store(factor, factors);
  for (int i = 0; i < rows; ++i) {
    if (factor[i] == 1.0f) continue;
    for (int d = 0; d < ld; d += kWidth) store(out + i * ld + d, load(out + i * ld + d) * factor[i]);
  }
}

}  // namespace

void attention_forward(const ForwardTask& task) {
  const int width = task.q.width, ld = round_up(width, kRowMultiple), lanes = round_up(width, kWidth);
  float* const q = task.scratch;  // [width, kQueryBlock]
  float* const k = q + kQueryBlock * ld;
  float* const v = k + kMaxKeyBlock * ld;
  float* const out = v + kMaxKeyBlock * ld;
  float* const scores = out + kQueryBlock * ld;

  QueryBlock block;
  load_positions(task.queries, task.q.group, task.first_query, task.query_count, &block);
  load_columns(task.q, block.first, block.count, out, ld);
  transpose(out, ld, block.count, block.padded, width, task.scale * kLog2e, q);
  memset(out, 0, sizeof(float) * (size_t)(kQueryBlock * ld));
  Statistics statistics;
  for (int i = 0; i < block.padded; ++i) {
    statistics.max[i] = kLowest;
    statistics.sum[i] = 0;
  }

  for (int64_t b = 0; b < task.keys.block_count; ++b) {
    const KeyBlock& keys = task.keys.blocks[b];
    const Visible seen = visible(block, keys);
    if (seen == Visible::none) continue;
    load_columns(task.k, keys.first, keys.count, k, ld);
    load_columns(task.v, keys.first, keys.count, v, ld);
    matmul(keys.count, block.padded, width, k, ld, q, kQueryBlock, scores, kQueryBlock);
    for (int column = 0; column < block.padded; column += kWidth) {
      if (seen == Visible::some)
        for (int key = 0; key < keys.count; ++key) {
          float* const p = scores + key * kQueryBlock + column;
          store(p, mask(load(p), task.keys.position[keys.first + key], block, column));
        }
      const vfloat shrink = softmax(scores + column, keys.count, column, &statistics);
      rescale(shrink, kWidth, out + column * ld, ld);
    }
    matmul_transposed_add(block.count, lanes, keys.count, scores, kQueryBlock, v, ld, out, ld);
  }

  store_columns(task.out, block.first, block.count, out, ld, false,
                [&](int i) { return statistics.sum[i] == 0 ? 0.0f : 1 / statistics.sum[i]; });
  for_each_column<float>(task.lse, block.first, block.count, [&](float* lse, int i) {
    *lse =
        statistics.sum[i] == 0 ? -kInfinity : statistics.max[i] / kLog2e + __builtin_logf(statistics.sum[i]);
  });
}

}  // namespace titan::cpu::TITAN_ISA
