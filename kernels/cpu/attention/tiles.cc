// The sizes of tiles and of the working memory of a task.
#include <algorithm>

#include "kernels/cpu/attention/kernels.h"

namespace titan::cpu {
namespace {

std::int64_t padded(int head_dim) { return (head_dim + kRowMultiple - 1) / kRowMultiple * kRowMultiple; }

}  // namespace

int key_block_size(int head_dim) {
  constexpr std::int64_t kMultiple = 24;  // whole register tiles: 6 rows and 8
  constexpr std::int64_t kFloats = 3072;  // 12 KiB of keys, as much of values, the rest for queries
  const std::int64_t keys = kFloats / padded(head_dim) / kMultiple * kMultiple;
  return static_cast<int>(std::clamp<std::int64_t>(keys, kMultiple, kMaxKeyBlock));
}

std::int64_t forward_scratch(int head_dim) {
  const std::int64_t queries = 2, keys = 2;  // q and out; k and v
  return (queries * kQueryBlock + keys * kMaxKeyBlock) * padded(head_dim) + kMaxKeyBlock * kQueryBlock;
}

std::int64_t backward_scratch(int head_dim, std::int64_t keys) {
  const std::int64_t query_rows = 5 * kQueryBlock;            // q, dout, both transposed, dq
  const std::int64_t key_rows = 2 * kMaxKeyBlock + 2 * keys;  // k and v; dk and dv
  return (query_rows + key_rows) * padded(head_dim) + 2 * kMaxKeyBlock * kQueryBlock;
}

}  // namespace titan::cpu
