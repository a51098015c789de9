#include "kernels/base/error.h"
#include "kernels/cuda/base/check.h"
#include "kernels/cuda/base/run.h"
#include "kernels/cuda/gemm/gemm_engine.h"
#include "kernels/op/float8_rules.h"

namespace titan::cuda {
namespace {

constexpr int kIndexOfC = 2;                       // among the operands, of which a and b are always there
constexpr std::int64_t kWorkspaceAlignment = 256;  // as cudaMalloc gives it

void check(const Gemm& op) {
  const std::int64_t a_rows = op.transpose_a ? op.a.cols : op.a.rows,
                     k = op.transpose_a ? op.a.rows : op.a.cols;
  TITAN_CHECK_EQ(a_rows, op.c.rows);
  TITAN_CHECK_EQ(op.transpose_b ? op.b.cols : op.b.rows, k);
  TITAN_CHECK_EQ(op.transpose_b ? op.b.rows : op.b.cols, op.c.cols);
  if (is_float8(op.a.dtype) || is_float8(op.b.dtype)) {
    const std::string problem = float8_problem(op);
    TITAN_CHECK(problem.empty(), "{}", problem);
    return;
  }
  TITAN_CHECK(op.a.dtype == op.b.dtype && (op.a.dtype == DType::f32 || op.a.dtype == DType::bf16));
  TITAN_CHECK(op.c.dtype == DType::f32 || (op.c.dtype == DType::bf16 && op.a.dtype == DType::bf16));
}

GemmScales scales_of(const Gemm& op) {
  if (!op.scale_a) return GemmScales::none;
  return op.scale_a.rows == 1 ? GemmScales::tensor : GemmScales::rows;
}

/// An empty sum.
void set_zero(const Operand& c, const Context& context) {
  const auto size = static_cast<std::size_t>(size_of(c.dtype));
  TITAN_CUDA(cudaMemset2DAsync(context.data(c), static_cast<std::size_t>(c.pitch) * size, 0,
                               static_cast<std::size_t>(c.cols) * size, static_cast<std::size_t>(c.rows),
                               context.stream));
}

/// The aligned part of the workspace.
void set_workspace(const Gemm& op, const Context& context, GemmKey& key, GemmData& data) {
  if (!op.workspace) return;
  const auto address = reinterpret_cast<std::uintptr_t>(context.data(op.workspace));
  const std::int64_t skipped =
      (kWorkspaceAlignment - static_cast<std::int64_t>(address % kWorkspaceAlignment)) % kWorkspaceAlignment;
  if (skipped >= op.workspace.bytes()) return;
  key.workspace_bytes = op.workspace.bytes() - skipped;
  data.workspace = context.data(op.workspace) + skipped;
}

}  // namespace

void run(const Gemm& op, const Context& context) {
  check(op);
  GemmData data{.a = context.data(op.a),
                .b = context.data(op.b),
                .c = context.data(op.c),
                .scale_a = context.data(op.scale_a),
                .scale_b = context.data(op.scale_b)};
  GemmKey key{.m = op.c.rows,
              .n = op.c.cols,
              .k = op.transpose_a ? op.a.rows : op.a.cols,
              .a = op.a.dtype,
              .b = op.b.dtype,
              .c = op.c.dtype,
              .transpose_a = op.transpose_a,
              .transpose_b = op.transpose_b,
              .a_pitch = op.a.pitch,
              .b_pitch = op.b.pitch,
              .c_pitch = op.c.pitch,
              .a_alignment = alignment_of(data.a),
              .b_alignment = alignment_of(data.b),
              .c_alignment = alignment_of(data.c),
              .adds = op.c.accumulates && !context.overwrites(kIndexOfC),
              .scales = scales_of(op),
              .fast_accumulation = op.fast_accumulation};
  if (key.m == 0 || key.n == 0) return;
  if (key.k == 0) return key.adds ? void() : set_zero(op.c, context);
  TITAN_CHECK(context.gemm != nullptr);
  set_workspace(op, context, key, data);
  context.gemm->multiply(key, data, context.stream);
}

}  // namespace titan::cuda
