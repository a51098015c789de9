// How much working memory a task needs, in floats.
#include "kernels/cpu/attention/kernels.h"

namespace titan::cpu {
namespace {

std::int64_t padded(int head_dim) { return (head_dim + kRowMultiple - 1) / kRowMultiple * kRowMultiple; }

}  // namespace

std::int64_t forward_scratch(int head_dim) {
  const std::int64_t queries = 2, keys = 2;  // q and out; k and v
  return (queries * kQueryBlock + keys * kKeyBlock) * padded(head_dim) + kKeyBlock * kQueryBlock;
}

std::int64_t backward_scratch(int head_dim, std::int64_t key_blocks) {
  const std::int64_t queries = 5, keys = 2 + 2 * key_blocks;  // q, dout, both transposed, dq; k, v, dk, dv
  return (queries * kQueryBlock + keys * kKeyBlock) * padded(head_dim) + 2 * kKeyBlock * kQueryBlock;
}

}  // namespace titan::cpu
