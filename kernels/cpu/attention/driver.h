// What the drivers share: operands as the columns of one key/value head, keys cut into blocks.
#pragma once

#include <vector>

#include "kernels/cpu/attention/kernels.h"
#include "kernels/cpu/base/context.h"
#include "kernels/op/ops.h"

namespace titan::cpu {

/// A checked attention shape: row counts by sequence, columns by key/value head.
struct AttentionSizes {
  std::int64_t q_length, k_length;  ///< rows of one sequence
  int group;                        ///< query heads that share a key/value head
  std::int64_t columns;             ///< q_length · group

  AttentionSizes(const AttentionShape& shape, const Operand& q, const Operand& k);
};

/// The columns of `kv_head` in the rows from `first_row` on.
HeadColumns head_columns(const Context& context, const Operand& operand, std::int64_t first_row, int kv_head,
                         int group, int width);

/// The i32 positions from `first_row` on.
const std::int32_t* positions(const Context& context, const Operand& operand, std::int64_t first_row);

/// By sequence: its first `keys` keys in blocks (the last may be shorter) with the ranges of their positions.
std::vector<std::vector<KeyBlock>> key_blocks(const Context& context, const Operand& k_position,
                                              const AttentionShape& shape, std::int64_t keys);

/// run() with a given table of kernels.
void attention(const Attention& op, const Context& context, const AttentionKernels& kernels);
void attention_grad(const AttentionGrad& op, const Context& context, const AttentionKernels& kernels);
void merge_lse(const MergeLse& op, const Context& context, const AttentionKernels& kernels);
void attention_delta(const AttentionDelta& op, const Context& context, const AttentionKernels& kernels);

}  // namespace titan::cpu
