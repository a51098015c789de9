#include <algorithm>
#include <cmath>

#include "tests/kernels/ops/op_table.h"

namespace titan::op_test {
namespace {

constexpr double kIgnored = -100;

/// Targets of a shard [first, first + cols) of a vocabulary twice as large on both sides; every fifth
/// ignored.
Matrix targets(CaseBuilder& b, std::int64_t rows, std::int64_t cols, std::int64_t first) {
  Matrix m = b.integers(rows, 1, std::max<std::int64_t>(0, first - cols), first + 2 * cols);
  m(0, 0) = static_cast<double>(first + cols - 1);
  for (std::int64_t r = 4; r < rows; r += 5) m(r, 0) = kIgnored;
  return m;
}

std::int64_t column(const Matrix& targets, std::int64_t row, std::int64_t first, std::int64_t cols) {
  const std::int64_t c = static_cast<std::int64_t>(targets(row, 0)) - first;
  return c >= 0 && c < cols ? c : -1;
}

void stats_of(const Matrix& logits, const Matrix& targets, std::int64_t first, Matrix& stats) {
  for (std::int64_t r = 0; r < logits.rows; ++r) {
    double maximum = logits(r, 0), sum = 0;
    for (std::int64_t c = 0; c < logits.cols; ++c) maximum = std::max(maximum, logits(r, c));
    for (std::int64_t c = 0; c < logits.cols; ++c) sum += std::exp(logits(r, c) - maximum);
    const std::int64_t target = column(targets, r, first, logits.cols);
    stats(r, 0) = maximum;
    stats(r, 1) = sum;
    stats(r, 2) = target < 0 ? 0 : logits(r, target);
  }
}

// --- Statistics
Case stats_case(DType dtype, std::int64_t rows, std::int64_t cols, double mean, std::int64_t first,
                std::int64_t padding) {
  CaseBuilder b(static_cast<unsigned>(rows + cols), padding);
  LogitStats op;
  op.logits = b.given<In>(dtype, b.normal(rows, cols, 4, mean));
  op.targets = b.given<In>(DType::i32, targets(b, rows, cols, first));
  op.stats = b.blank<Out>(DType::f32, rows, 3);
  op.first_column = first;
  Case c = b.finish(
      op, [op](Contents& v) { stats_of(v[op.logits], v[op.targets], op.first_column, v[op.stats]); });
  c.growth = std::max(c.growth, std::sqrt(static_cast<double>(cols)));
  return c;
}

/// A NaN logit must not be lost: it has to stop the run.
Case nan_case(DType dtype) {
  CaseBuilder b(1);
  LogitStats op;
  Matrix logits = b.normal(1, 100);
  logits(0, 41) = std::nan("");
  op.logits = b.given<In>(dtype, logits);
  op.targets = b.given<In>(DType::i32, Matrix(1, 1, kIgnored));
  op.stats = b.blank<Out>(DType::f32, 1, 3);
  return b.finish(op, [op](Contents& v) {
    double maximum = v[op.logits](0, 0);
    for (const double x : v[op.logits].values) maximum = x > maximum ? x : maximum;
    v[op.stats](0, 0) = maximum;
    v[op.stats](0, 1) = std::nan("");
  });
}

void stats_tests(Emit emit) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    emit(stats_case(dtype, 1, 1, 0, 0, 0));
    emit(stats_case(dtype, 7, 33, -80, 0, 3));
    emit(stats_case(dtype, 33, 257, 30, 100, 0));
    emit(stats_case(dtype, 5, 5003, 0, 7, 1));
    emit(stats_case(dtype, 3, 20488, 0, 20000, 8));
    emit(nan_case(dtype));
  }
}

void stats_bench(Emit emit) {
  emit(stats_case(DType::bf16, 512, 32000, 0, 0, 0));
  emit(stats_case(DType::f32, 512, 32000, 0, 0, 0));
}

// --- Gradient
void cross_entropy_grad(const CrossEntropyGrad& op, Contents& v) {
  const Matrix &x = v[op.logits], &stats = v[op.stats];
  const double valid = v[op.valid_tokens](0, 0);
  for (std::int64_t r = 0; r < x.rows; ++r) {
    const std::int64_t target = column(v[op.targets], r, op.first_column, x.cols);
    const bool ignored = v[op.targets](r, 0) == kIgnored;
    for (std::int64_t c = 0; c < x.cols; ++c)
      v[op.dlogits](r, c) =
          ignored ? 0 : (std::exp(x(r, c) - stats(r, 0)) / stats(r, 1) - (c == target ? 1 : 0)) / valid;
  }
}

/// The loss of whole rows: Σ (log Σ exp(logits) − target logit) / valid over targets that are not ignored.
double cross_entropy(const CrossEntropyGrad& op, const Contents& v) {
  Matrix stats(op.logits.rows, 3);
  stats_of(v[op.logits], v[op.targets], op.first_column, stats);
  double total = 0;
  for (std::int64_t r = 0; r < stats.rows; ++r)
    if (v[op.targets](r, 0) != kIgnored) total += stats(r, 0) + std::log(stats(r, 1)) - stats(r, 2);
  return total / v[op.valid_tokens](0, 0);
}

Case grad_case(DType dtype, std::int64_t rows, std::int64_t cols, std::int64_t first, std::int64_t padding) {
  CaseBuilder b(static_cast<unsigned>(rows + cols), padding);
  CrossEntropyGrad op;
  Matrix logits = b.normal(rows, cols, 3), stats(rows, 3);
  for (double& x : logits.values) x = rounded(dtype, x);
  const Matrix labels = targets(b, rows, cols, first);
  stats_of(logits, labels, first, stats);
  op.logits = b.given<In>(dtype, logits);
  op.stats = b.given<In>(DType::f32, stats);
  op.targets = b.given<In>(DType::i32, labels);
  op.valid_tokens = b.given<In>(DType::f32, Matrix(1, 1, 37));
  op.dlogits = b.blank<Out>(dtype, rows, cols);
  op.first_column = first;
  return b.finish(op, [op](Contents& v) { cross_entropy_grad(op, v); },
                  {[op](const Contents& v) { return cross_entropy(op, v); }, {{op.logits, op.dlogits}}});
}

void grad_tests(Emit emit) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    emit(grad_case(dtype, 1, 1, 0, 0));
    emit(grad_case(dtype, 7, 33, 0, 3));
    emit(grad_case(dtype, 33, 57, 100, 0));
    emit(grad_case(dtype, 5, 1003, 7, 1));
    emit(grad_case(dtype, 7, 4360, 4000, 8));
  }
}

void grad_bench(Emit emit) {
  emit(grad_case(DType::bf16, 512, 32000, 0, 0));
  emit(grad_case(DType::f32, 512, 32000, 0, 0));
}

// --- Loss
Case loss_case(std::int64_t rows, std::int64_t padding) {
  CaseBuilder b(static_cast<unsigned>(rows), padding);
  CrossEntropyLoss op;
  Matrix stats = b.normal(rows, 3, 4);
  for (std::int64_t r = 0; r < rows; ++r) stats(r, 1) = 1 + std::abs(stats(r, 1));
  op.stats = b.given<In>(DType::f32, stats);
  op.targets = b.given<In>(DType::i32, targets(b, rows, 100, 0));
  op.valid_tokens = b.given<In>(DType::f32, Matrix(1, 1, static_cast<double>(rows)));
  op.loss = b.given<Accumulate>(DType::f32, Matrix(1, 1, 2.5));
  return b.finish(op, [op](Contents& v) {
    const Matrix& s = v[op.stats];
    for (std::int64_t r = 0; r < s.rows; ++r)
      if (v[op.targets](r, 0) != kIgnored)
        v[op.loss](0, 0) += (s(r, 0) + std::log(s(r, 1)) - s(r, 2)) / v[op.valid_tokens](0, 0);
  });
}

void loss_tests(Emit emit) {
  emit(loss_case(1, 0));
  emit(loss_case(7, 2));
  emit(loss_case(1000, 0));
}

void loss_bench(Emit emit) { emit(loss_case(2048, 0)); }

const AddRow stats_row{"logit_stats", stats_tests, stats_bench};
const AddRow grad_row{"cross_entropy_grad", grad_tests, grad_bench};
const AddRow loss_row{"cross_entropy_loss", loss_tests, loss_bench};

}  // namespace
}  // namespace titan::op_test
