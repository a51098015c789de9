// Sizes of scratch operands: pure functions, so that builders know every byte before anything runs.
#pragma once

#include <cstdint>

#include "kernels/cost/machine.h"
#include "kernels/op/ops.h"

namespace titan {

/// Rows of RmsNormGrad's `partial` for that many rows of x: enough blocks to spread over a machine, of at
/// least 32 rows, and the same on every machine, so that sums do not change with it.
std::int64_t rms_norm_grad_blocks(std::int64_t rows);

/// Columns of EmbeddingGrad's `order`.
std::int64_t embedding_grad_order(std::int64_t rows, std::int64_t table_rows);

/// Columns of SquareSum's `partial` for that many elements: at most 1024, the same on every machine.
std::int64_t square_sum_blocks(std::int64_t elements);

/// Bytes of Gemm's `workspace`. Zero: leave the operand out.
std::int64_t gemm_workspace_bytes(const Gemm& op, const Machine& machine);

}  // namespace titan
