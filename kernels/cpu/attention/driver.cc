#include "kernels/cpu/attention/driver.h"

#include <algorithm>

#include "kernels/base/error.h"

namespace titan::cpu {

AttentionSizes::AttentionSizes(const AttentionShape& shape, const Operand& q, const Operand& k) {
  TITAN_CHECK(shape.sequences > 0 && shape.kv_heads > 0 && shape.head_dim > 0);
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

std::vector<KeyBlock> key_blocks(const std::int32_t* position, std::int64_t keys) {
  std::vector<KeyBlock> blocks;
  blocks.reserve(static_cast<std::size_t>((keys + kKeyBlock - 1) / kKeyBlock));
  for (std::int64_t first = 0; first < keys; first += kKeyBlock) {
    const std::int64_t end = std::min(first + kKeyBlock, keys);
    const auto [low, high] = std::minmax_element(position + first, position + end);
    blocks.push_back({first, static_cast<int>(end - first), *low, *high});
  }
  return blocks;
}

const AttentionKernels& attention_kernels(Isa isa) {
  switch (isa) {
    case Isa::avx512:
      return avx512::kAttentionKernels;
    case Isa::avx2:
      return avx2::kAttentionKernels;
    case Isa::baseline:
      return baseline::kAttentionKernels;
  }
  return baseline::kAttentionKernels;
}

}  // namespace titan::cpu
