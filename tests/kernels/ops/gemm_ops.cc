#include <cmath>

#include "tests/kernels/ops/op_table.h"

namespace titan::op_test {
namespace {

struct Layout {
  bool transpose_a, transpose_b, accumulates;
  std::int64_t workspace = 0;  ///< floats
};

/// c [m, n] = op(a) [m, k] · op(b) [k, n]
Case gemm_case(DType input, DType output, std::int64_t m, std::int64_t n, std::int64_t k, Layout layout,
               std::int64_t padding) {
  CaseBuilder b(static_cast<unsigned>(m + 3 * n + 7 * k), padding);
  Gemm op;
  op.transpose_a = layout.transpose_a;
  op.transpose_b = layout.transpose_b;
  op.a = b.given<In>(input, layout.transpose_a ? b.normal(k, m) : b.normal(m, k));
  op.b = b.given<In>(input, layout.transpose_b ? b.normal(n, k) : b.normal(k, n));
  op.c = b.given<Result>(output, b.normal(m, n));
  op.c.accumulates = layout.accumulates;
  if (layout.workspace > 0) op.workspace = b.blank<Scratch>(DType::f32, 1, layout.workspace);
  Case c = b.finish(op, [op, m, n, k](Contents& v) {
    const Matrix &x = v[op.a], &y = v[op.b];
    for (std::int64_t i = 0; i < m; ++i)
      for (std::int64_t j = 0; j < n; ++j) {
        double sum = 0;
        for (std::int64_t t = 0; t < k; ++t)
          sum += (op.transpose_a ? x(t, i) : x(i, t)) * (op.transpose_b ? y(j, t) : y(t, j));
        v[op.c](i, j) = sum;
      }
  });
  c.growth = 16 + std::sqrt(static_cast<double>(k));
  return c;
}

void tests(Emit emit) {
  const std::pair<DType, DType> dtypes[] = {
      {DType::f32, DType::f32}, {DType::bf16, DType::bf16}, {DType::bf16, DType::f32}};
  for (const auto& [input, output] : dtypes)
    for (const bool transpose_a : {false, true})
      for (const bool transpose_b : {false, true}) {
        emit(gemm_case(input, output, 1, 1, 1, {transpose_a, transpose_b, false}, 0));
        emit(gemm_case(input, output, 7, 33, 5, {transpose_a, transpose_b, false}, 3));
        emit(gemm_case(input, output, 33, 17, 70, {transpose_a, transpose_b, output == DType::f32}, 1));
        emit(gemm_case(input, output, 3, 65, 129, {transpose_a, transpose_b, false}, 0));
        // Sizes and pitches of whole 16 bytes; a long sum, which may be cut where there is a workspace.
        emit(gemm_case(input, output, 16, 136, 64, {transpose_a, transpose_b, true}, 8));
        emit(gemm_case(input, output, 24, 16, 520, {transpose_a, transpose_b, true, 1 << 14}, 0));
        emit(gemm_case(input, output, 5, 16, 130, {transpose_a, transpose_b, false, 1 << 12}, 1));
        emit(gemm_case(input, output, 4, 6, 0, {transpose_a, transpose_b, false}, 0));
      }
}

/// Forward, input gradient and weight gradient of a projection, as a training step has them; a decode step.
void bench(Emit emit) {
  constexpr std::int64_t kTokens = 2048, kIn = 768, kOut = 2048;
  for (const DType dtype : {DType::bf16, DType::f32}) {
    emit(gemm_case(dtype, dtype, kTokens, kOut, kIn, {false, true, false}, 0));
    emit(gemm_case(dtype, dtype, kTokens, kIn, kOut, {false, false, false}, 0));
    emit(gemm_case(dtype, DType::f32, kOut, kIn, kTokens, {true, false, true}, 0));
    emit(gemm_case(dtype, dtype, 1, kOut, kIn, {false, true, false}, 0));
  }
}

const AddRow row{"gemm", tests, bench};

}  // namespace
}  // namespace titan::op_test
