// Amax, Quantize, and the products of 8-bit floats.
#include <algorithm>
#include <cmath>
#include <utility>

#include "tests/kernels/ops/float8.h"
#include "tests/kernels/ops/op_table.h"

namespace titan::op_test {
namespace {

double largest_of(DType dtype) { return dtype == DType::f8e5m2 ? 57344 : 448; }

/// The nearest value of the format, ties to even, saturating: by the spacing of its values at x.
double to_float8(DType dtype, double x) {
  if (std::isnan(x)) return x;
  const int fraction_bits = dtype == DType::f8e5m2 ? 2 : 3,
            smallest_exponent = dtype == DType::f8e5m2 ? -14 : -6;
  const double clamped = std::clamp(x, -largest_of(dtype), largest_of(dtype));
  if (clamped == 0) return clamped;
  const double spacing = std::ldexp(1, std::max(std::ilogb(clamped), smallest_exponent) - fraction_bits);
  return std::nearbyint(clamped / spacing) * spacing;
}

double magnitude(const Matrix& m, std::int64_t row, std::int64_t rows, std::int64_t col, std::int64_t cols) {
  double most = 0;
  for (std::int64_t r = row; r < row + rows; ++r)
    for (std::int64_t c = col; c < col + cols; ++c) {
      if (std::isnan(m(r, c))) return m(r, c);
      most = std::max(most, std::abs(m(r, c)));
    }
  return most;
}

/// In f32 where the definition says so.
float factor_of(DType dtype, double amax) {
  return static_cast<float>(largest_of(dtype)) / (amax < 1e-12 ? 1e-12f : static_cast<float>(amax));
}

float power_of_two_below(float factor) {
  if (!(factor > 0)) return factor;
  return std::ldexp(1.0f, std::ilogb(factor));
}

}  // namespace

float row_factor(DType dtype, const Matrix& x, std::int64_t row) {
  return power_of_two_below(factor_of(dtype, magnitude(x, row, 1, 0, x.cols)));
}

double quantized(DType dtype, double x, float factor) {
  return to_float8(dtype, static_cast<float>(x) * factor);
}

namespace {

// --- Amax -------------------------------------------------------------------------------------------------

Case amax_case(DType dtype, std::int64_t rows, std::int64_t cols, std::int64_t padding, double special = 0) {
  CaseBuilder b(static_cast<unsigned>(rows + 3 * cols), padding);
  Matrix x = b.normal(rows, cols);
  if (special != 0) x(rows - 1, cols / 2) = special;
  Amax op;
  op.x = b.given<In>(dtype, std::move(x));
  op.amax = b.blank<Out>(DType::f32, 1, 1);
  return b.finish(op,
                  [op, rows, cols](Contents& v) { v[op.amax](0, 0) = magnitude(v[op.x], 0, rows, 0, cols); });
}

void amax_tests(Emit emit) {
  for (const DType dtype : {DType::bf16, DType::f32}) {
    emit(amax_case(dtype, 1, 1, 0));
    emit(amax_case(dtype, 7, 33, 3));
    emit(amax_case(dtype, 100, 515, 0));
    emit(amax_case(dtype, 5, 70, 1, -1e30));
    emit(amax_case(dtype, 5, 70, 1, NAN));
    emit(amax_case(dtype, 5, 3, 0, -INFINITY));
  }
}

void amax_bench(Emit emit) { emit(amax_case(DType::bf16, 4096, 4096, 0)); }

// --- Quantize ---------------------------------------------------------------------------------------------

struct Layout {
  bool tensorwise = true, plain = true, transposed = true;
};

void quantize_by_tensor(const Quantize& op, DType dtype, Contents& v) {
  const float factor = factor_of(dtype, v[op.amax](0, 0));
  v[op.scale](0, 0) = 1.0f / factor;
  for (std::int64_t r = 0; r < op.x.rows; ++r)
    for (std::int64_t c = 0; c < op.x.cols; ++c) {
      const double y = quantized(dtype, v[op.x](r, c), factor);
      if (op.y) v[op.y](r, c) = y;
      if (op.y_transposed) v[op.y_transposed](c, r) = y;
    }
}

void quantize_by_row(const Quantize& op, DType dtype, Contents& v) {
  const Matrix& x = v[op.x];
  for (std::int64_t r = 0; op.y && r < op.x.rows; ++r) {
    const float factor = row_factor(dtype, x, r);
    v[op.scale](r, 0) = 1.0f / factor;
    for (std::int64_t c = 0; c < op.x.cols; ++c) v[op.y](r, c) = quantized(dtype, x(r, c), factor);
  }
  for (std::int64_t c = 0; op.y_transposed && c < op.x.cols; ++c) {
    const float factor = power_of_two_below(factor_of(dtype, magnitude(x, 0, x.rows, c, 1)));
    v[op.scale_transposed](c, 0) = 1.0f / factor;
    for (std::int64_t r = 0; r < op.x.rows; ++r) v[op.y_transposed](c, r) = quantized(dtype, x(r, c), factor);
  }
}

/// Rows and columns of very different size, a row of zeros, and where asked one element that is not finite.
Case quantize_case(DType input, DType output, std::int64_t rows, std::int64_t cols, Layout layout,
                   std::int64_t padding, double special = 0) {
  CaseBuilder b(static_cast<unsigned>(rows + 3 * cols), padding);
  Matrix x = b.normal(rows, cols);
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < cols; ++c)
      x(r, c) *= r == 1 ? 0 : std::ldexp(1.0, static_cast<int>(r % 9 - c % 7));
  if (special != 0) x(rows - 1, cols / 2) = special;
  Quantize op;
  op.x = b.given<In>(input, x);
  for (double& element : x.values) element = rounded(input, element);
  if (layout.tensorwise) op.amax = b.given<In>(DType::f32, Matrix(1, 1, magnitude(x, 0, rows, 0, cols)));
  if (layout.plain) op.y = b.blank<Out>(output, rows, cols);
  if (layout.transposed) op.y_transposed = b.blank<Out>(output, cols, rows);
  if (layout.tensorwise || layout.plain) op.scale = b.blank<Out>(DType::f32, layout.tensorwise ? 1 : rows, 1);
  if (!layout.tensorwise && layout.transposed) op.scale_transposed = b.blank<Out>(DType::f32, cols, 1);
  return b.finish(op, [op, output, layout](Contents& v) {
    if (layout.tensorwise)
      quantize_by_tensor(op, output, v);
    else
      quantize_by_row(op, output, v);
  });
}

void quantize_tests(Emit emit) {
  for (const DType input : {DType::bf16, DType::f32})
    for (const DType output : {DType::f8e4m3, DType::f8e5m2})
      for (const bool tensorwise : {true, false}) {
        emit(quantize_case(input, output, 1, 1, {tensorwise, true, true}, 0));
        emit(quantize_case(input, output, 7, 33, {tensorwise, true, true}, 3));
        emit(quantize_case(input, output, 80, 144, {tensorwise, true, false}, 0));
        emit(quantize_case(input, output, 65, 130, {tensorwise, false, true}, 1));
        emit(quantize_case(input, output, 9, 20, {tensorwise, true, true}, 0, NAN));
        emit(quantize_case(input, output, 9, 20, {tensorwise, true, true}, 0, -INFINITY));
      }
}

void quantize_bench(Emit emit) {
  for (const bool tensorwise : {true, false})
    emit(quantize_case(DType::bf16, DType::f8e4m3, 4096, 4096, {tensorwise, true, true}, 0));
}

// --- Gemm -------------------------------------------------------------------------------------------------

struct Product {
  DType a, b, c;
  bool by_row, accumulates;
};

/// c [m, n] = a [m, k] · b [n, k]ᵀ, scaled.
Case gemm_case(const Product& p, std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t padding) {
  CaseBuilder b(static_cast<unsigned>(m + 3 * n + 7 * k), padding);
  Gemm op;
  op.transpose_b = true;
  op.a = b.given<In>(p.a, b.normal(m, k, 30));
  op.b = b.given<In>(p.b, b.normal(n, k, 30));
  op.c = b.given<Result>(p.c, b.normal(m, n));
  op.c.accumulates = p.accumulates;
  op.scale_a = b.given<In>(DType::f32, b.normal(p.by_row ? m : 1, 1, 0.01));
  op.scale_b = b.given<In>(DType::f32, b.normal(p.by_row ? n : 1, 1, 0.01));
  Case c = b.finish(op, [op, p, m, n, k](Contents& v) {
    for (std::int64_t i = 0; i < m; ++i)
      for (std::int64_t j = 0; j < n; ++j) {
        double sum = 0;
        for (std::int64_t t = 0; t < k; ++t) sum += v[op.a](i, t) * v[op.b](j, t);
        v[op.c](i, j) = sum * v[op.scale_a](p.by_row ? i : 0, 0) * v[op.scale_b](p.by_row ? j : 0, 0);
      }
  });
  c.growth = 16 + std::sqrt(static_cast<double>(k));
  return c;
}

void gemm_tests(Emit emit) {
  const std::pair<DType, DType> inputs[] = {
      {DType::f8e4m3, DType::f8e4m3}, {DType::f8e5m2, DType::f8e4m3}, {DType::f8e4m3, DType::f8e5m2}};
  for (const auto& [a, b] : inputs)
    for (const DType c : {DType::bf16, DType::f32})
      for (const bool by_row : {false, true}) {
        emit(gemm_case({a, b, c, by_row, false}, 16, 16, 16, 0));
        emit(gemm_case({a, b, c, by_row, c == DType::f32}, 32, 48, 320, 16));
        emit(gemm_case({a, b, c, by_row, c == DType::f32}, 48, 112, 16, 0));
      }
  emit(gemm_case({DType::f8e4m3, DType::f8e4m3, DType::f32, true, true}, 416, 304, 272, 0));
}

void gemm_bench(Emit emit) {
  emit(gemm_case({DType::f8e4m3, DType::f8e4m3, DType::bf16, false, false}, 1024, 2048, 768, 0));
  emit(gemm_case({DType::f8e5m2, DType::f8e4m3, DType::f32, false, true}, 768, 2048, 1024, 0));
}

// --- Amax by the operation that writes
// -----------------------------------------------------------------------

struct Written {
  Out* amax = nullptr;
  Operand of = {};
};

Written written_with_amax(Op& op) {
  if (auto* o = std::get_if<RmsNorm>(&op)) return {&o->amax, o->y};
  if (auto* o = std::get_if<RmsNormGrad>(&op)) return {&o->amax, o->dx};
  if (auto* o = std::get_if<Rope>(&op)) return {&o->amax, o->y};
  if (auto* o = std::get_if<SwiGlu>(&op)) return {&o->amax, o->y};
  if (auto* o = std::get_if<SwiGluGrad>(&op)) return {&o->amax, o->dgate_up};
  return {};
}

/// The first operand's last element becomes NaN.
Case with_nan(Case c) {
  bool first = true;
  for_each_operand(c.op, [&](const Operand& o, Access, std::string_view) {
    if (std::exchange(first, false)) c.contents[o].values.back() = NAN;
  });
  return c;
}

void fused_tests(Emit emit);
void fused_rows_tests(Emit emit);

/// The cases of all operations but these.
void emit_plain(Emit emit) {
  const std::vector<Row> rows = table();
  for (const Row& row : rows)
    if (row.tests != fused_tests && row.tests != fused_rows_tests) row.tests(emit);
}

constexpr std::int64_t kSmall = 1000;  // elements of a result: cases of those come with NaN too

/// The cases of the operations that can write 8-bit rows besides, asked to.
void fused_rows_tests(Emit emit) {
  const auto ask = [&](const Case& plain, auto& op, const Operand& y) {
    Case c = plain;
    c.quantized_of = y;
    c.gradient = {};
    const auto add = [&](Operand& o, DType dtype, std::int64_t cols, std::int64_t pitch) {
      o = {.value = c.contents.add(Matrix(y.rows, cols)),
           .dtype = dtype,
           .rows = y.rows,
           .cols = cols,
           .pitch = pitch};
    };
    add(op.quantized, DType::f8e4m3, y.cols, y.pitch);
    add(op.scale, DType::f32, 1, 1);
    c.op = op;
    emit(c);
    if (y.rows * y.cols < kSmall) emit(with_nan(c));
  };
  emit_plain([&](const Case& plain) {
    Op op = plain.op;
    if (auto* o = std::get_if<RmsNorm>(&op)) ask(plain, *o, o->y);
    if (auto* o = std::get_if<SwiGlu>(&op)) ask(plain, *o, o->y);
    if (auto* o = std::get_if<SwiGluGrad>(&op)) ask(plain, *o, o->dgate_up);
  });
}

/// The cases of the operations that can find an amax besides, asked to; small ones with NaN too.
void fused_tests(Emit emit) {
  emit_plain([&](const Case& plain) {
    Case c = plain;
    const Written written = written_with_amax(c.op);
    if (written.amax == nullptr) return;
    c.amax_of = written.of;
    Operand amax{
        .value = c.contents.add(Matrix(1, 1)), .dtype = DType::f32, .rows = 1, .cols = 1, .pitch = 1};
    static_cast<Operand&>(*written.amax) = amax;
    c.gradient = {};
    emit(c);
    if (written.of.rows * written.of.cols < kSmall) emit(with_nan(c));
  });
}

const AddRow fused_row{"fused_amax", fused_tests}, fused_rows_row{"fused_rows", fused_rows_tests};
const AddRow amax_row{"amax", amax_tests, amax_bench},
    quantize_row{"quantize", quantize_tests, quantize_bench}, gemm_row{"float8_gemm", gemm_tests, gemm_bench};

}  // namespace
}  // namespace titan::op_test
