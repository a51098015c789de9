#include <cmath>
#include <limits>

#include "kernels/cost/workspace.h"
#include "tests/kernels/ops/op_table.h"

namespace titan::op_test {
namespace {

/// At 8 bytes after a multiple of 64, where a vector of 16 bytes may not start.
Case misaligned(Case c) {
  c.shift = 8;
  return c;
}

// --- Square sum
Case square_sum_case(std::int64_t n) {
  CaseBuilder b(static_cast<unsigned>(n));
  SquareSum op;
  op.x = b.given<In>(DType::f32, b.normal(1, n));
  op.sum = b.blank<Out>(DType::f32, 1, 1);
  op.partial = b.blank<Scratch>(DType::i64, 1, square_sum_blocks(n));
  return b.finish(op, [op](Contents& v) {
    for (const double x : v[op.x].values) v[op.sum](0, 0) += x * x;
  });
}

void square_sum_tests(Emit emit) {
  for (const std::int64_t n : {1, 7, 33, 65536, 65537, 200001}) emit(square_sum_case(n));
  emit(misaligned(square_sum_case(66003)));
}

void square_sum_bench(Emit emit) { emit(square_sum_case(1 << 24)); }

// --- Clip
Case clip_case(double max_norm, Matrix square_sums, double loss, double stopped) {
  CaseBuilder b(1);
  ClipScale op;
  op.square_sums = b.given<In>(DType::f32, std::move(square_sums));
  op.loss = b.given<In>(DType::f32, Matrix(1, 1, loss));
  op.norm = b.blank<Out>(DType::f32, 1, 1);
  op.scale = b.blank<Out>(DType::f32, 1, 1);
  op.stop = b.given<State>(DType::i32, Matrix(1, 1, stopped));
  op.max_norm = static_cast<float>(max_norm);
  return b.finish(op, [op](Contents& v) {
    double total = 0;
    for (const double x : v[op.square_sums].values) total += x;
    const double norm = std::sqrt(total);
    const bool finite = std::isfinite(norm) && std::isfinite(v[op.loss](0, 0));
    v[op.norm](0, 0) = norm;
    v[op.scale](0, 0) = op.max_norm > 0 && finite ? std::min(1.0, op.max_norm / (norm + 1e-6)) : 1;
    if (!finite) v[op.stop](0, 0) = 1;
  });
}

void clip_tests(Emit emit) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  emit(clip_case(1, Matrix(1, 1, 9), 2, 0));
  emit(clip_case(1, Matrix(5, 1, 0.01), 2, 0));
  emit(clip_case(0, Matrix(1, 3, 100), 2, 0));
  emit(clip_case(1, Matrix(1, 3, 0), 2, 0));
  emit(clip_case(1, Matrix(3, 211, 1e-4), 2, 0));
  emit(clip_case(1, Matrix(1, 2, 4), 2, 1));
  emit(clip_case(1, Matrix(1, 2, 4), kInf, 0));
  emit(clip_case(1, Matrix(1, 2, kInf), 2, 0));
  emit(clip_case(1, Matrix(1, 2, std::nan("")), 2, 0));
}

// --- AdamW
Case adamw_case(std::int64_t n, double step, bool stopped) {
  CaseBuilder b(static_cast<unsigned>(n));
  AdamW op;
  op.grad = b.given<In>(DType::f32, b.normal(1, n));
  op.scale = b.given<In>(DType::f32, Matrix(1, 1, 0.3));
  Matrix hyper(1, 3);
  hyper(0, 0) = 1e-2;
  hyper(0, 1) = 1 - std::pow(op.beta1, step);
  hyper(0, 2) = 1 - std::pow(op.beta2, step);
  op.hyper = b.given<In>(DType::f32, hyper);
  op.stop = b.given<In>(DType::i32, Matrix(1, 1, stopped));
  op.param = b.given<State>(DType::f32, b.normal(1, n));
  op.exp_avg = b.given<State>(DType::f32, b.normal(1, n, 0.1));
  Matrix squares = b.normal(1, n);
  for (double& x : squares.values) x *= x;
  op.exp_avg_sq = b.given<State>(DType::f32, squares);
  return b.finish(op, [op](Contents& v) {
    if (v[op.stop](0, 0) != 0) return;
    const double lr = v[op.hyper](0, 0), bias1 = v[op.hyper](0, 1), bias2 = v[op.hyper](0, 2);
    for (std::int64_t i = 0; i < op.param.cols; ++i) {
      double &p = v[op.param](0, i), &m = v[op.exp_avg](0, i), &s = v[op.exp_avg_sq](0, i);
      const double g = v[op.grad](0, i) * v[op.scale](0, 0);
      p -= lr * op.weight_decay * p;
      m = op.beta1 * m + (1 - double{op.beta1}) * g;
      s = op.beta2 * s + (1 - double{op.beta2}) * g * g;
      p -= lr / bias1 * m / (std::sqrt(s / bias2) + op.epsilon);
    }
  });
}

void adamw_tests(Emit emit) {
  for (const std::int64_t n : {1, 7, 33, 100003}) emit(adamw_case(n, 1, false));
  emit(adamw_case(100, 1000, false));
  emit(adamw_case(100, 5, true));
  emit(misaligned(adamw_case(1031, 3, false)));
}

void adamw_bench(Emit emit) { emit(adamw_case(1 << 23, 10, false)); }

const AddRow square_sum_row{"square_sum", square_sum_tests, square_sum_bench};
const AddRow clip_row{"clip_scale", clip_tests};
const AddRow adamw_row{"adamw", adamw_tests, adamw_bench};

}  // namespace
}  // namespace titan::op_test
