#include <cstring>

#include "kernels/base/error.h"
#include "kernels/cpu/base/accumulate.h"
#include "kernels/cpu/base/run.h"
#include "kernels/cpu/gemm/float8_codes.h"
#include "kernels/cpu/gemm/gemm_engine.h"
#include "kernels/op/float8_rules.h"

namespace titan::cpu {
namespace {

void check(const Gemm& op) {
  const std::int64_t a_rows = op.transpose_a ? op.a.cols : op.a.rows,
                     k = op.transpose_a ? op.a.rows : op.a.cols;
  TITAN_CHECK_EQ(a_rows, op.c.rows);
  TITAN_CHECK_EQ(op.transpose_b ? op.b.cols : op.b.rows, k);
  TITAN_CHECK_EQ(op.transpose_b ? op.b.rows : op.b.cols, op.c.cols);
  TITAN_CHECK(float8_problem(op).empty(), "{}", float8_problem(op));
  if (is_float8(op.a.dtype)) return;
  TITAN_CHECK(op.a.dtype == op.b.dtype && (op.a.dtype == DType::f32 || op.a.dtype == DType::bf16));
  TITAN_CHECK(op.c.dtype == DType::f32 || (op.c.dtype == DType::bf16 && op.a.dtype == DType::bf16));
}

/// 8-bit floats are exact in bf16.
DType multiplied_as(DType dtype) { return is_float8(dtype) ? DType::bf16 : dtype; }

GemmScaling scaling(const Gemm& op, const Context& context) {
  return {.rows = context.data_as<const float>(op.scale_a),
          .columns = context.data_as<const float>(op.scale_b),
          .each = op.scale_a.rows > 1 || op.scale_b.rows > 1};
}

/// An empty sum.
void set_zero(const Operand& c, std::byte* data) {
  for (std::int64_t r = 0; r < c.rows; ++r)
    std::memset(data + r * c.pitch * size_of(c.dtype), 0, c.cols * size_of(c.dtype));
}

}  // namespace

void run(const Gemm& op, const Context& context) {
  check(op);
  const GemmProblem problem{
      .m = op.c.rows,
      .n = op.c.cols,
      .k = op.transpose_a ? op.a.rows : op.a.cols,
      .a = {context.data(op.a), op.a.pitch, op.transpose_a, float8_codes(op.a.dtype)},
      .b = {context.data(op.b), op.b.pitch, op.transpose_b, float8_codes(op.b.dtype)},
      .c = context.data(op.c),
      .c_pitch = op.c.pitch,
      .input = multiplied_as(op.a.dtype),
      .output = op.c.dtype,
      .add = adds(op, op.c, context),
      .scaling = scaling(op, context),
  };
  if (problem.m == 0 || problem.n == 0) return;
  if (problem.k == 0) {
    if (!problem.add) set_zero(op.c, context.data(op.c));
    return;
  }
  TITAN_CHECK(context.gemm != nullptr);
  context.gemm->multiply(problem, context.team, context.data(op.workspace),
                         op.workspace ? op.workspace.bytes() : 0);
}

}  // namespace titan::cpu
