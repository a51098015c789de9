#include <algorithm>

#include "kernels/cpu/attention/driver.h"
#include "kernels/cpu/base/accumulate.h"
#include "kernels/cpu/base/run.h"
#include "kernels/cpu/base/team.h"

namespace titan::cpu {
namespace {

/// Which part of the gradients of one key/value head a task makes.
struct Part {
  std::int64_t first_query, query_count;  ///< columns
  std::int64_t first_key, key_count;      ///< key blocks
  bool want_dq, want_dkv;
};

/// All of a head in one task computes every score once (5 products a tile). Cut in two kinds of tasks, of
/// which one makes dk and dv of some keys, the other dq of some queries, scores are computed twice (7
/// products a tile), but more threads find work and less memory is needed. Both add in the same order: the
/// bits are the same.
std::vector<Part> parts(std::int64_t columns, std::int64_t key_blocks, bool cut) {
  if (!cut) return {{0, columns, 0, key_blocks, true, true}};
  constexpr std::int64_t kBlocksPerPart = 8;
  std::vector<Part> result;
  for (std::int64_t key = 0; key < key_blocks; key += kBlocksPerPart)
    result.push_back({0, columns, key, std::min(kBlocksPerPart, key_blocks - key), false, true});
  for (std::int64_t query = 0; query < columns; query += kQueryBlock)
    result.push_back(
        {query, std::min<std::int64_t>(kQueryBlock, columns - query), 0, key_blocks, true, false});
  return result;
}

bool should_cut(std::int64_t heads, int threads, std::int64_t scratch_bytes) {
  constexpr std::int64_t kMaxScratch = std::int64_t{64} << 20;
  const std::int64_t rounds = (heads + threads - 1) / threads;
  return scratch_bytes > kMaxScratch || 5 * rounds * threads > 7 * heads;
}

}  // namespace

void attention_grad(const AttentionGrad& op, const Context& context, const AttentionKernels& kernels) {
  const AttentionShape& shape = op.shape;
  const AttentionSizes sizes(shape, op.q, op.k);
  const auto blocks = key_blocks(context, op.k_position, shape, sizes.k_length);
  const std::int64_t heads = shape.sequences * shape.kv_heads;
  const auto block_count = static_cast<std::int64_t>(blocks[0].size());
  const auto scratch_bytes = [&](std::int64_t keys) {
    return backward_scratch(shape.head_dim, keys) * size_of(DType::f32);
  };
  const bool cut = should_cut(heads, context.team.threads(), scratch_bytes(sizes.k_length));
  const std::vector<Part> head_parts = parts(sizes.columns, block_count, cut);
  const auto parts_per_head = static_cast<std::int64_t>(head_parts.size());
  const bool add_dq = adds(op, op.dq, context), add_dk = adds(op, op.dk, context),
             add_dv = adds(op, op.dv, context);

  context.team.parallel_items(heads * parts_per_head, [&](std::int64_t item, int thread) {
    const Part& part = head_parts[static_cast<std::size_t>(item % parts_per_head)];
    const std::int64_t sequence = item / parts_per_head / shape.kv_heads;
    const int kv_head = static_cast<int>(item / parts_per_head % shape.kv_heads);
    const std::int64_t q_row = sequence * sizes.q_length, k_row = sequence * sizes.k_length;
    const auto queries = [&](const Operand& x, int width) {
      return head_columns(context, x, q_row, kv_head, sizes.group, width);
    };
    const auto keys = [&](const Operand& x) {
      return head_columns(context, x, k_row, kv_head, 1, shape.head_dim);
    };
    BackwardTask task;
    task.q = queries(op.q, shape.head_dim);
    task.dout = queries(op.dout, shape.head_dim);
    task.dq = queries(op.dq, shape.head_dim);
    task.lse = queries(op.lse, 1);
    task.delta = queries(op.delta, 1);
    task.k = keys(op.k);
    task.v = keys(op.v);
    task.dk = keys(op.dk);
    task.dv = keys(op.dv);
    task.want_dq = part.want_dq;
    task.want_dkv = part.want_dkv;
    task.add_dq = add_dq;
    task.add_dk = add_dk;
    task.add_dv = add_dv;
    task.queries = {positions(context, op.q_position, q_row), positions(context, op.doc_start, q_row)};
    task.first_query = part.first_query;
    task.query_count = part.query_count;
    task.keys = {positions(context, op.k_position, k_row),
                 blocks[static_cast<std::size_t>(sequence)].data() + part.first_key, part.key_count};
    task.scale = shape.scale;
    task.scratch = reinterpret_cast<float*>(context.team.scratch(
        thread, scratch_bytes(part.want_dkv ? part.key_count * key_block_size(shape.head_dim) : 0)));
    kernels.backward(task);
  });
}

void run(const AttentionGrad& op, const Context& context) {
  attention_grad(op, context, attention_kernels(context.isa));
}

}  // namespace titan::cpu
