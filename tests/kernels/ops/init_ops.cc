#include <cmath>

#include "kernels/base/philox.h"
#include "tests/kernels/ops/op_table.h"

namespace titan::op_test {
namespace {

double phi(double z) { return 0.5 * std::erfc(-z / std::sqrt(2.0)); }

/// Φ⁻¹ by bisection of the C library's erfc.
double quantile(double p) {
  double low = -8, high = 8;
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    (phi(middle) < p ? low : high) = middle;
  }
  return low;
}

double reference_value(const InitNormal& op, std::uint64_t seed, std::int64_t row, std::int64_t col) {
  const auto index = static_cast<std::uint64_t>((op.first_row + row) * op.global_cols + op.first_col + col);
  const auto words = philox(philox_key(seed, op.stream), {static_cast<std::uint32_t>(index / 4),
                                                          static_cast<std::uint32_t>(index / 4 >> 32), 0, 0});
  const double u = (words[index % 4] + 0.5) / std::ldexp(1.0, 32);
  const double low = op.cutoff > 0 ? phi(-op.cutoff) : 0;
  return op.mean + op.std * quantile(low + (1 - 2 * low) * u);
}

Case init_case(DType dtype, std::int64_t rows, std::int64_t cols, InitNormal op, std::int64_t padding) {
  constexpr std::uint64_t kSeed = 1234567;
  CaseBuilder b(1, padding);
  op.seed = b.given<In>(DType::i64, Matrix(1, 1, kSeed));
  op.y = b.blank<Out>(dtype, rows, cols);
  op.stream = hash_name("model.layers.0.mlp.up_proj.weight");
  return b.finish(op, [op](Contents& v) {
    for (std::int64_t r = 0; r < op.y.rows; ++r)
      for (std::int64_t c = 0; c < op.y.cols; ++c) v[op.y](r, c) = reference_value(op, kSeed, r, c);
  });
}

void tests(Emit emit) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    emit(init_case(dtype, 1, 1, {.seed = {}, .y = {}, .global_cols = 1}, 0));
    emit(init_case(dtype, 7, 33, {.seed = {}, .y = {}, .std = 0.02f, .cutoff = 3, .global_cols = 33}, 3));
    emit(init_case(dtype, 90, 100, {.seed = {}, .y = {}, .mean = 1, .std = 2, .global_cols = 100}, 0));
    // Parts of a parameter: rows and columns of a tensor-parallel shard, a flat range of a data-parallel one.
    emit(init_case(dtype, 5, 17,
                   {.seed = {}, .y = {}, .cutoff = 2, .first_row = 3, .first_col = 50, .global_cols = 333},
                   1));
    emit(init_case(dtype, 1, 2001,
                   {.seed = {}, .y = {}, .cutoff = 1, .first_col = 8589934591, .global_cols = 64}, 0));
  }
}

void bench(Emit emit) {
  emit(init_case(DType::f32, 1024, 2048,
                 {.seed = {}, .y = {}, .std = 0.02f, .cutoff = 3, .global_cols = 2048}, 0));
}

const AddRow row{"init_normal", tests, bench};

}  // namespace
}  // namespace titan::op_test
