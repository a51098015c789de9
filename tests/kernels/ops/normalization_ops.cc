#include <algorithm>
#include <cmath>

#include "tests/kernels/ops/op_table.h"

namespace titan::op_test {
namespace {

// --- Forward
void rms_norm(const RmsNorm& op, Contents& v) {
  const Matrix& w = v[op.weight];
  Matrix x = v[op.x];
  if (op.delta) {
    for (std::size_t i = 0; i < x.values.size(); ++i)
      x.values[i] = rounded(op.sum.dtype, x.values[i] + v[op.delta].values[i]);
    v[op.sum] = x;
  }
  for (std::int64_t r = 0; r < x.rows; ++r) {
    double squares = 0;
    for (std::int64_t c = 0; c < x.cols; ++c) squares += x(r, c) * x(r, c);
    const double inv_rms = 1 / std::sqrt(squares / static_cast<double>(x.cols) + op.epsilon);
    v[op.inv_rms](r, 0) = inv_rms;
    for (std::int64_t c = 0; c < x.cols; ++c) v[op.y](r, c) = x(r, c) * inv_rms * w(0, c);
  }
}

Case forward_case(DType dtype, std::int64_t rows, std::int64_t cols, bool delta, std::int64_t padding) {
  CaseBuilder b(static_cast<unsigned>(rows + cols), padding);
  RmsNorm op;
  op.x = b.given<In>(dtype, b.normal(rows, cols));
  if (delta) op.delta = b.given<In>(dtype, b.normal(rows, cols, 0.5));
  op.weight = b.given<In>(dtype, b.normal(1, cols, 0.2, 1));
  if (delta) op.sum = b.blank<Out>(dtype, rows, cols);
  op.y = b.blank<Out>(dtype, rows, cols);
  op.inv_rms = b.blank<Out>(DType::f32, rows, 1);
  Case c = b.finish(op, [op](Contents& v) { rms_norm(op, v); });
  c.growth = std::max(c.growth, std::sqrt(static_cast<double>(cols)));
  return c;
}

void forward_tests(Emit emit) {
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const bool delta : {false, true}) {
      emit(forward_case(dtype, 1, 1, delta, 0));
      emit(forward_case(dtype, 7, 33, delta, 3));
      emit(forward_case(dtype, 3, 96, delta, 0));
      emit(forward_case(dtype, 33, 1000, delta, 5));
      emit(forward_case(dtype, 17, 520, delta, 8));
      emit(forward_case(dtype, 2, 4104, delta, 0));
      emit(forward_case(dtype, 2, 16400, delta, 8));
    }
}

void forward_bench(Emit emit) {
  emit(forward_case(DType::bf16, 4096, 2048, true, 0));
  emit(forward_case(DType::f32, 4096, 2048, true, 0));
}

// --- Backward
void rms_norm_grad(const RmsNormGrad& op, Contents& v) {
  const Matrix &dy = v[op.dy], &x = v[op.x], &w = v[op.weight], &inv_rms = v[op.inv_rms];
  for (std::int64_t r = 0; r < x.rows; ++r) {
    const double inv = inv_rms(r, 0);
    double mean = 0;
    for (std::int64_t c = 0; c < x.cols; ++c)
      mean += dy(r, c) * w(0, c) * x(r, c) / static_cast<double>(x.cols);
    for (std::int64_t c = 0; c < x.cols; ++c) {
      const double residual = op.dresidual ? v[op.dresidual](r, c) : 0;
      v[op.dx](r, c) = inv * (dy(r, c) * w(0, c) - x(r, c) * inv * inv * mean) + residual;
      v[op.dweight](0, c) += dy(r, c) * x(r, c) * inv;
    }
  }
}

/// Σ dy·y(x, weight) + Σ dresidual·x, with the epsilon that the saved inv_rms came from.
double objective(const RmsNormGrad& op, double epsilon, const Contents& v) {
  const Matrix &dy = v[op.dy], &x = v[op.x], &w = v[op.weight];
  double total = 0;
  for (std::int64_t r = 0; r < x.rows; ++r) {
    double squares = 0;
    for (std::int64_t c = 0; c < x.cols; ++c) squares += x(r, c) * x(r, c);
    const double inv = 1 / std::sqrt(squares / static_cast<double>(x.cols) + epsilon);
    for (std::int64_t c = 0; c < x.cols; ++c) {
      total += dy(r, c) * x(r, c) * inv * w(0, c);
      if (op.dresidual) total += v[op.dresidual](r, c) * x(r, c);
    }
  }
  return total;
}

Case backward_case(DType dtype, std::int64_t rows, std::int64_t cols, bool residual, std::int64_t blocks,
                   std::int64_t padding) {
  constexpr double kEpsilon = 1e-5;
  CaseBuilder b(static_cast<unsigned>(rows + cols), padding);
  RmsNormGrad op;
  op.dy = b.given<In>(dtype, b.normal(rows, cols));
  Matrix x = b.normal(rows, cols), inv_rms(rows, 1);
  for (double& e : x.values) e = rounded(dtype, e);
  for (std::int64_t r = 0; r < rows; ++r) {
    double squares = 0;
    for (std::int64_t c = 0; c < cols; ++c) squares += x(r, c) * x(r, c);
    inv_rms(r, 0) = 1 / std::sqrt(squares / static_cast<double>(cols) + kEpsilon);
  }
  op.x = b.given<In>(dtype, x);
  op.weight = b.given<In>(dtype, b.normal(1, cols, 0.2, 1));
  op.inv_rms = b.given<In>(DType::f32, inv_rms);
  if (residual) op.dresidual = b.given<In>(dtype, b.normal(rows, cols));
  op.dx = b.blank<Out>(dtype, rows, cols);
  op.dweight = b.given<Accumulate>(DType::f32, b.normal(1, cols));
  op.partial = b.blank<Scratch>(DType::f32, blocks, cols);
  Case c = b.finish(op, [op](Contents& v) { rms_norm_grad(op, v); },
                    {[op](const Contents& v) { return objective(op, kEpsilon, v); },
                     {{op.x, op.dx}, {op.weight, op.dweight}}});
  if (cols > 1000) c.gradient = {};  // the definition is that of short rows
  c.growth = 16 + std::sqrt(static_cast<double>(rows));
  return c;
}

void backward_tests(Emit emit) {
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const bool residual : {false, true}) {
      emit(backward_case(dtype, 1, 5, residual, 4, 0));
      emit(backward_case(dtype, 7, 33, residual, 3, 3));
      emit(backward_case(dtype, 33, 96, residual, 8, 0));
      emit(backward_case(dtype, 65, 310, residual, 16, 1));
    }
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const std::int64_t cols : {520, 1032, 2056, 4104, 8200})
      if (dtype == DType::bf16 || cols < 8200) emit(backward_case(dtype, 5, cols, cols != 1032, 2, 8));
}

void backward_bench(Emit emit) {
  emit(backward_case(DType::bf16, 4096, 2048, true, 64, 0));
  emit(backward_case(DType::f32, 4096, 2048, true, 64, 0));
}

const AddRow forward_row{"rms_norm", forward_tests, forward_bench};
const AddRow backward_row{"rms_norm_grad", backward_tests, backward_bench};

}  // namespace
}  // namespace titan::op_test
