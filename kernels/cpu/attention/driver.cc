#include "kernels/cpu/attention/driver.h"

#include <algorithm>

#include "kernels/base/error.h"

namespace titan::cpu {

AttentionSizes::AttentionSizes(const AttentionShape& shape, const Operand& q, const Operand& k) {
  TITAN_CHECK(shape.sequences > 0 && shape.kv_heads > 0 && shape.head_dim > 0);
  TITAN_CHECK(q.rows > 0 && k.rows > 0);
  TITAN_CHECK_EQ(shape.heads % shape.kv_heads, 0);
  TITAN_CHECK_EQ(q.cols, std::int64_t{shape.heads} * shape.head_dim);
  TITAN_CHECK_EQ(k.cols, std::int64_t{shape.kv_heads} * shape.head_dim);
  TITAN_CHECK_EQ(q.rows % shape.sequences, 0);
  TITAN_CHECK_EQ(k.rows % shape.sequences, 0);
  q_length = q.rows / shape.sequences;
  k_length = k.rows / shape.sequences;
  group = shape.heads / shape.kv_heads;
  columns = q_length * group;
}

HeadColumns head_columns(const Context& context, const Operand& operand, std::int64_t first_row, int kv_head,
                         int group, int width) {
  TITAN_CHECK(operand.dtype == DType::f32 || operand.dtype == DType::bf16);
  const std::int64_t offset = first_row * operand.pitch + std::int64_t{kv_head} * group * width;
  return {context.data(operand) + offset * size_of(operand.dtype), operand.dtype, operand.pitch, group,
          width};
}

const std::int32_t* positions(const Context& context, const Operand& operand, std::int64_t first_row) {
  TITAN_CHECK(operand.dtype == DType::i32 && operand.cols == 1 && operand.contiguous());
  return context.data_as<std::int32_t>(operand) + first_row;
}

std::vector<std::vector<KeyBlock>> key_blocks(const Context& context, const Operand& k_position,
                                              const AttentionShape& shape, std::int64_t keys) {
  const std::int64_t size = key_block_size(shape.head_dim), length = k_position.rows / shape.sequences;
  std::vector<std::vector<KeyBlock>> blocks(static_cast<std::size_t>(shape.sequences));
  for (std::int64_t sequence = 0; sequence < shape.sequences; ++sequence) {
    const std::int32_t* const position = positions(context, k_position, sequence * length);
    for (std::int64_t first = 0; first < keys; first += size) {
      const std::int64_t end = std::min(first + size, keys);
      const auto [low, high] = std::minmax_element(position + first, position + end);
      blocks[static_cast<std::size_t>(sequence)].push_back(
          {first, static_cast<int>(end - first), *low, *high});
    }
  }
  return blocks;
}

const AttentionKernels& attention_kernels(Isa isa) {
  if (isa >= Isa::avx512_bf16) return avx512_bf16::kAttentionKernels;
  return choose(isa, baseline::kAttentionKernels, avx2::kAttentionKernels, avx512::kAttentionKernels);
}

}  // namespace titan::cpu
