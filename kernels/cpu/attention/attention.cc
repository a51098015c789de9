#include <algorithm>

#include "kernels/base/error.h"
#include "kernels/cpu/attention/driver.h"
#include "kernels/cpu/base/run.h"
#include "kernels/cpu/base/team.h"

namespace titan::cpu {

void attention(const Attention& op, const Context& context, const AttentionKernels& kernels) {
  const AttentionShape& shape = op.shape;
  const AttentionSizes sizes(shape, op.q, op.k);
  const std::int64_t keys =
      op.kv_length ? std::clamp<std::int64_t>(*context.data_as<std::int32_t>(op.kv_length), 0, sizes.k_length)
                   : sizes.k_length;
  const auto blocks = key_blocks(context, op.k_position, shape, keys);

  // Items in memory order: neighbours read the same keys.
  const std::int64_t tasks_per_head = (sizes.columns + kQueryBlock - 1) / kQueryBlock;
  const std::int64_t items = shape.sequences * shape.kv_heads * tasks_per_head;
  const std::int64_t scratch = forward_scratch(shape.head_dim) * size_of(DType::f32);
  context.team.parallel_items(items, [&](std::int64_t item, int thread) {
    const std::int64_t sequence = item / tasks_per_head / shape.kv_heads;
    const int kv_head = static_cast<int>(item / tasks_per_head % shape.kv_heads);
    const std::int64_t q_row = sequence * sizes.q_length, k_row = sequence * sizes.k_length;
    const std::vector<KeyBlock>& seen = blocks[static_cast<std::size_t>(sequence)];
    ForwardTask task;
    task.q = head_columns(context, op.q, q_row, kv_head, sizes.group, shape.head_dim);
    task.k = head_columns(context, op.k, k_row, kv_head, 1, shape.head_dim);
    task.v = head_columns(context, op.v, k_row, kv_head, 1, shape.head_dim);
    task.out = head_columns(context, op.out, q_row, kv_head, sizes.group, shape.head_dim);
    task.lse = head_columns(context, op.lse, q_row, kv_head, sizes.group, 1);
    task.queries = {positions(context, op.q_position, q_row), positions(context, op.doc_start, q_row)};
    task.first_query = item % tasks_per_head * kQueryBlock;
    task.query_count =
        static_cast<int>(std::min<std::int64_t>(kQueryBlock, sizes.columns - task.first_query));
    task.keys = {positions(context, op.k_position, k_row), seen.data(),
                 static_cast<std::int64_t>(seen.size())};
    task.scale = shape.scale;
    task.scratch = reinterpret_cast<float*>(context.team.scratch(thread, scratch));
    kernels.forward(task);
  });
}

void run(const Attention& op, const Context& context) {
  attention(op, context, attention_kernels(context.isa));
}

}  // namespace titan::cpu
