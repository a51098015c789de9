#include "kernels/cost/workspace.h"

#include <algorithm>

namespace titan {

std::int64_t rms_norm_grad_blocks(std::int64_t rows) {
  constexpr std::int64_t kMinRows = 32, kMaxBlocks = 128;
  return std::clamp<std::int64_t>((rows + kMinRows - 1) / kMinRows, 1, kMaxBlocks);
}

std::int64_t embedding_grad_order(std::int64_t rows, std::int64_t table_rows) {
  return rows + table_rows + 1;
}

std::int64_t square_sum_blocks(std::int64_t elements) {
  constexpr std::int64_t kMaxBlocks = 1024;
  const std::int64_t units = std::max<std::int64_t>(1, (elements + kSquareSumUnit - 1) / kSquareSumUnit);
  const std::int64_t units_a_block = (units + kMaxBlocks - 1) / kMaxBlocks;
  return (units + units_a_block - 1) / units_a_block;
}

std::int64_t gemm_workspace_bytes(const Gemm&, const Machine& machine) {
  return machine.gemm_workspace_bytes;
}

}  // namespace titan
