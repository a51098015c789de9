// The sizes of tiles and of the working memory of a task.
#include <algorithm>

#include "kernels/cpu/attention/kernels.h"

namespace titan::cpu {
namespace {

std::int64_t padded(int head_dim) { return (head_dim + kRowMultiple - 1) / kRowMultiple * kRowMultiple; }
/// Pairs of bf16 in a row, in whole vectors.
std::int64_t pair_width(int head_dim) { return (head_dim + 31) / 32 * 16; }

}  // namespace

int key_block_size(int head_dim) {
  constexpr std::int64_t kMultiple = 24;  // whole register tiles: 6 rows and 8
  constexpr std::int64_t kFloats = 3072;  // 12 KiB of keys, as much of values, the rest for queries
  const std::int64_t keys = kFloats / padded(head_dim) / kMultiple * kMultiple;
  return static_cast<int>(std::clamp<std::int64_t>(keys, kMultiple, kMaxKeyBlock));
}

// Kernels on floats and on pairs of bf16 share these sizes: each needs at most what is said here.

std::int64_t forward_scratch(int head_dim) {
  const std::int64_t width = padded(head_dim), pairs = pair_width(head_dim);
  const std::int64_t floats =
      2 * (kQueryBlock + kMaxKeyBlock) * width + kMaxKeyBlock * kQueryBlock;  // q, out, k, v
  const std::int64_t scores = std::max<std::int64_t>(width, kMaxKeyBlock) * kQueryBlock;
  const std::int64_t bf16 = (2 * kQueryBlock + kMaxKeyBlock) * pairs +
                            kMaxKeyBlock / 2 * (width + kQueryBlock) + scores + width * kQueryBlock;
  return std::max(floats, bf16);
}

std::int64_t backward_scratch(int head_dim, std::int64_t keys) {
  const std::int64_t width = padded(head_dim), pairs = pair_width(head_dim);
  const std::int64_t gradients = 2 * keys * width;  // dk and dv
  const std::int64_t floats =
      (5 * kQueryBlock + 2 * kMaxKeyBlock) * width +  // q, dout, both transposed, dq; k, v
      2 * kMaxKeyBlock * kQueryBlock;
  const std::int64_t bf16 = (3 * kQueryBlock + 2 * kMaxKeyBlock) * pairs +
                            (3 * kQueryBlock + kMaxKeyBlock / 2) * width + 3 * kMaxKeyBlock * kQueryBlock / 2;
  return std::max(floats, bf16) + gradients;
}

}  // namespace titan::cpu
