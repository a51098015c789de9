// Flash attention, backward. With P = exp(scale·K·Qᵀ − lse), all transposed as in the forward ([keys,
// queries]):
//   dV = P · dO;  dS = P ∘ (V · dOᵀ − delta);  dK = scale · dS · Q;  dQ = scale · dSᵀ · K.
#include "kernels/cpu/attention/block.h"
#include "kernels/cpu/attention/kernels.h"
#include "kernels/cpu/attention/matmul.h"
#include "kernels/cpu/attention/tables.h"

namespace titan::cpu::TITAN_ISA {
namespace {

/// A block of query columns and what the tiles need of it; `t` marks transposes [width, kQueryBlock].
struct Queries {
  QueryBlock block;
  float lse[kQueryBlock], delta[kQueryBlock];  ///< lse in base 2
  float *q, *dout, *q_t, *dout_t, *dq;
};

void load_queries(const BackwardTask& task, int64_t first, int count, int ld, Queries* queries) {
  QueryBlock& block = queries->block;
  const int width = task.q.width;
  load_positions(task.queries, task.q.group, first, count, &block);
  load_columns(task.q, first, count, queries->q, ld);
  load_columns(task.dout, first, count, queries->dout, ld);
  transpose(queries->q, ld, count, block.padded, width, task.scale * kLog2e, queries->q_t);
  transpose(queries->dout, ld, count, block.padded, width, 1, queries->dout_t);
  memset(queries->dq, 0, sizeof(float) * (size_t)(kQueryBlock * ld));
  load_statistics(task, first, count, block.padded, queries->lse, queries->delta);
}

/// p: scores → probabilities; ds: V·dOᵀ → dS.
template <bool kMasked>
void softmax_grad(const Queries& queries, const KeyBlock& keys, const int32_t* key_position, float* p,
                  float* ds) {
  for (int column = 0; column < queries.block.padded; column += kWidth) {
    const vfloat lse = load(queries.lse + column), delta = load(queries.delta + column);
    for (int key = 0; key < keys.count; ++key) {
      const int at = key * kQueryBlock + column;
      vfloat score = load(p + at);
      if (kMasked) score = mask(score, key_position[key], queries.block, column);
      const vfloat probability = exp2_or_zero(score - lse);
      store(p + at, probability);
      store(ds + at, probability * (load(ds + at) - delta));
    }
  }
}

}  // namespace

void attention_backward(const BackwardTask& task) {
  const int width = task.q.width, ld = round_up(width, kRowMultiple), lanes = round_up(width, kWidth);
  const KeyBlock &first_keys = task.keys.blocks[0], &last_keys = task.keys.blocks[task.keys.block_count - 1];
  const int64_t key_count = last_keys.first + last_keys.count - first_keys.first;
  const int64_t key_floats = task.want_dkv ? key_count * ld : 0;
  float* next = task.scratch;
  const auto take = [&next](int64_t floats) {
    float* const taken = next;
    next += floats;
    return taken;
  };
  float* const k = take(kMaxKeyBlock * ld);
  float* const v = take(kMaxKeyBlock * ld);
  float* const p = take(kMaxKeyBlock * kQueryBlock);
  float* const ds = take(kMaxKeyBlock * kQueryBlock);
  Queries queries;
  queries.q = take(kQueryBlock * ld);
  queries.dout = take(kQueryBlock * ld);
  queries.q_t = take(kQueryBlock * ld);
  queries.dout_t = take(kQueryBlock * ld);
  queries.dq = take(kQueryBlock * ld);
  float* const dk = take(key_floats);
  float* const dv = take(key_floats);
  memset(dk, 0, sizeof(float) * (size_t)key_floats * 2);

  for (int64_t first = task.first_query; first < task.first_query + task.query_count; first += kQueryBlock) {
    const int64_t left = task.first_query + task.query_count - first;
    const int count = left < kQueryBlock ? (int)left : kQueryBlock;
    load_queries(task, first, count, ld, &queries);
    const int padded = queries.block.padded;
    for (int64_t b = 0; b < task.keys.block_count; ++b) {
      const KeyBlock& keys = task.keys.blocks[b];
      const Visible seen = visible(queries.block, keys);
      if (seen == Visible::none) continue;
      load_columns(task.k, keys.first, keys.count, k, ld);
      load_columns(task.v, keys.first, keys.count, v, ld);
      matmul(keys.count, padded, width, k, ld, queries.q_t, kQueryBlock, p, kQueryBlock);
      matmul(keys.count, padded, width, v, ld, queries.dout_t, kQueryBlock, ds, kQueryBlock);
      const int32_t* const key_position = task.keys.position + keys.first;
      if (seen == Visible::all)
        softmax_grad<false>(queries, keys, key_position, p, ds);
      else
        softmax_grad<true>(queries, keys, key_position, p, ds);
      if (task.want_dkv) {
        const int64_t at = (keys.first - first_keys.first) * ld;
        matmul_add(keys.count, lanes, count, p, kQueryBlock, queries.dout, ld, dv + at, ld);
        matmul_add(keys.count, lanes, count, ds, kQueryBlock, queries.q, ld, dk + at, ld);
      }
      if (task.want_dq)
        matmul_transposed_add(count, lanes, keys.count, ds, kQueryBlock, k, ld, queries.dq, ld);
    }
    const auto scale = [&](int) { return task.scale; };
    if (task.want_dq) store_columns(task.dq, first, count, queries.dq, ld, task.add_dq, scale);
  }

  if (!task.want_dkv) return;
  for (int64_t b = 0; b < task.keys.block_count; ++b) {
    const KeyBlock& keys = task.keys.blocks[b];
    const int64_t at = (keys.first - first_keys.first) * ld;
    store_columns(task.dk, keys.first, keys.count, dk + at, ld, task.add_dk, [&](int) { return task.scale; });
    store_columns(task.dv, keys.first, keys.count, dv + at, ld, task.add_dv, [](int) { return 1.0f; });
  }
}

}  // namespace titan::cpu::TITAN_ISA
