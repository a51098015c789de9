#include <cmath>
#include <numbers>

#include "tests/kernels/ops/op_table.h"

namespace titan::op_test {
namespace {

// --- Table: Llama 3.1's rule as published, by wavelengths.
double frequency(const RopeTable& op, std::int64_t i) {
  const RopeScaling& s = op.scaling;
  const double f = std::pow(op.theta, -2.0 * static_cast<double>(i) / static_cast<double>(op.table.cols));
  const double wavelength = 2 * std::numbers::pi / f, length = static_cast<double>(s.original_length);
  if (wavelength < length / s.high_freq_factor) return f;
  if (wavelength > length / s.low_freq_factor) return f / s.factor;
  const double smooth = (length / wavelength - s.low_freq_factor) / (s.high_freq_factor - s.low_freq_factor);
  return (1 - smooth) * f / s.factor + smooth * f;
}

Case table_case(std::int64_t positions, std::int64_t head_dim, RopeScaling scaling, std::int64_t padding) {
  CaseBuilder b(1, padding);
  RopeTable op;
  op.table = b.blank<Out>(DType::f32, positions, head_dim);
  op.scaling = scaling;
  return b.finish(op, [op](Contents& v) {
    const std::int64_t half = op.table.cols / 2;
    for (std::int64_t p = 0; p < op.table.rows; ++p)
      for (std::int64_t i = 0; i < half; ++i) {
        v[op.table](p, i) = std::cos(static_cast<double>(p) * frequency(op, i));
        v[op.table](p, half + i) = std::sin(static_cast<double>(p) * frequency(op, i));
      }
  });
}

void table_tests(Emit emit) {
  emit(table_case(1, 2, {}, 0));
  emit(table_case(131, 64, {}, 3));
  emit(table_case(200, 128,
                  {.factor = 8, .low_freq_factor = 1, .high_freq_factor = 4, .original_length = 8192}, 0));
  emit(table_case(99, 16, {.factor = 32, .low_freq_factor = 1, .high_freq_factor = 4, .original_length = 64},
                  0));
}

void table_bench(Emit emit) { emit(table_case(8192, 128, {.factor = 8}, 0)); }

// --- Rotation
Case rope_case(DType x_type, DType y_type, std::int64_t rows, int head_dim, int rotated, int copied,
               bool inverse, std::int64_t padding) {
  constexpr std::int64_t kPositions = 64;
  CaseBuilder b(static_cast<unsigned>(rows + head_dim), padding);
  const std::int64_t cols = static_cast<std::int64_t>(head_dim) * (rotated + copied);
  Rope op;
  op.x = b.given<In>(x_type, b.normal(rows, cols));
  op.positions = b.given<In>(DType::i32, b.integers(rows, 1, -1, kPositions - 1));
  op.table = b.given<In>(DType::f32, b.normal(kPositions, head_dim, 0.7));
  op.y = b.blank<Out>(y_type, rows, cols);
  op.head_dim = head_dim;
  op.rotated_heads = rotated;
  op.inverse = inverse;
  return b.finish(op, [op, cols](Contents& v) {
    const std::int64_t half = op.head_dim / 2, rotated_cols = op.head_dim * op.rotated_heads;
    for (std::int64_t r = 0; r < op.x.rows; ++r) {
      const std::int64_t position = static_cast<std::int64_t>(v[op.positions](r, 0));
      for (std::int64_t c = 0; c < cols; ++c) {
        v[op.y](r, c) = v[op.x](r, c);
        if (position < 0 || c >= rotated_cols) continue;
        const std::int64_t i = c % op.head_dim % half;
        const double cosine = v[op.table](position, i);
        const double sine = (op.inverse ? -1 : 1) * v[op.table](position, half + i);
        const bool low = c % op.head_dim < half;
        v[op.y](r, c) = low ? v[op.x](r, c) * cosine - v[op.x](r, c + half) * sine
                            : v[op.x](r, c) * cosine + v[op.x](r, c - half) * sine;
      }
    }
  });
}

void rope_tests(Emit emit) {
  for (const DType x : {DType::f32, DType::bf16})
    for (const DType y : {DType::f32, DType::bf16})
      for (const bool inverse : {false, true}) {
        emit(rope_case(x, y, 1, 2, 1, 0, inverse, 0));
        emit(rope_case(x, y, 7, 6, 3, 2, inverse, 5));
        emit(rope_case(x, y, 33, 64, 2, 1, inverse, 0));
        emit(rope_case(x, y, 5, 128, 5, 2, inverse, 8));
      }
}

void rope_bench(Emit emit) {
  emit(rope_case(DType::bf16, DType::bf16, 4096, 64, 40, 8, false, 0));
  emit(rope_case(DType::f32, DType::f32, 4096, 64, 40, 8, false, 0));
}

const AddRow table_row{"rope_table", table_tests, table_bench};
const AddRow rope_row{"rope", rope_tests, rope_bench};

}  // namespace
}  // namespace titan::op_test
