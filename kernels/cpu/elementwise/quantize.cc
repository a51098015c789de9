// Amax and Quantize.
#include <bit>

#include "kernels/base/float8.h"
#include "kernels/cpu/base/run.h"
#include "kernels/cpu/elementwise/dispatch.h"
#include "kernels/cpu/elementwise/fused_float8.h"
#include "kernels/op/float8_rules.h"

namespace titan::cpu {
namespace {

const QuantizeKernels& kernels(Isa isa) {
  return choose(isa, baseline::kQuantize, avx2::kQuantize, avx512::kQuantize);
}

/// Columns of x that are transposed together: a cache line of y_transposed each way.
constexpr std::int64_t kTile = 64;

const std::byte* element(const Context& context, const Operand& o, std::int64_t row, std::int64_t col) {
  return context.data(o) + (row * o.pitch + col) * size_of(o.dtype);
}

class Quantizer {
 public:
  Quantizer(const Quantize& op, const Context& context)
      : op_(op),
        context_(context),
        dtype_(op.y ? op.y.dtype : op.y_transposed.dtype),
        kernels_(kernels(context.isa)),
        type_(element_type(op.x)),
        convert_(kernels_.convert[type_][dtype_ == DType::f8e5m2 ? kE5m2 : kE4m3]) {}

  void by_tensor() {
    const float factor = float8_factor(dtype_, *context_.data_as<float>(op_.amax));
    *context_.data_as<float>(op_.scale) = 1.0f / factor;
    if (op_.y) convert_rows([&](std::int64_t) { return factor; });
    if (op_.y_transposed)
      transpose([&](std::int64_t, std::int64_t, float* factors) { factors[0] = factor; }, true);
  }

  void by_row() {
    if (op_.y) convert_rows([&](std::int64_t row) { return factor_of_row(row); });
    if (op_.y_transposed) {
      transpose(
          [&](std::int64_t col, std::int64_t count, float* factors) { column_factors(col, count, factors); },
          false);
    }
  }

  void some_rows(std::int64_t begin, std::int64_t end) const {
    for (std::int64_t row = begin; row < end; ++row) convert_row(row, factor_of_row(row));
  }

 private:
  /// The factor of a row or column, and its reciprocal.
  float factor_of(std::uint32_t most, float* scale) const {
    const float factor = floor_to_power_of_two(float8_factor(dtype_, std::bit_cast<float>(most)));
    *scale = 1.0f / factor;
    return factor;
  }

  float factor_of_row(std::int64_t row) const {
    const std::uint32_t most = kernels_.amax[type_](element(context_, op_.x, row, 0), op_.x.cols, 0);
    return factor_of(most, context_.data_as<float>(op_.scale) + row);
  }

  void convert_rows(FunctionRef<float(std::int64_t row)> factor_of_row) const {
    context_.team.parallel_for(op_.x.rows, grain_of_rows(op_.x.cols),
                               [&](std::int64_t begin, std::int64_t end) {
                                 for (std::int64_t row = begin; row < end; ++row)
                                   convert_row(row, factor_of_row(row));
                               });
  }

  void convert_row(std::int64_t row, float factor) const {
    convert_(element(context_, op_.x, row, 0), &factor, true,
             context_.data_as<std::uint8_t>(op_.y) + row * op_.y.pitch, op_.x.cols);
  }

  void column_factors(std::int64_t col, std::int64_t count, float* factors) const {
    std::uint32_t most[kTile] = {};
    for (std::int64_t row = 0; row < op_.x.rows; ++row)
      kernels_.column_amax[type_](element(context_, op_.x, row, col), count, most);
    for (std::int64_t i = 0; i < count; ++i)
      factors[i] = factor_of(most[i], context_.data_as<float>(op_.scale_transposed) + col + i);
  }

  /// `factors_of(column, count, factors)`: one factor where `one`, else one a column.
  void transpose(FunctionRef<void(std::int64_t, std::int64_t, float*)> factors_of, bool one) const {
    const std::int64_t strips = (op_.x.cols + kTile - 1) / kTile;
    context_.team.parallel_items(strips, [&](std::int64_t strip, int) {
      const std::int64_t col = strip * kTile, cols = std::min(kTile, op_.x.cols - col);
      float factors[kTile];
      factors_of(col, cols, factors);
      for (std::int64_t row = 0; row < op_.x.rows; row += kTile)
        transpose_tile(row, col, std::min(kTile, op_.x.rows - row), cols, factors, one);
    });
  }

  void transpose_tile(std::int64_t row, std::int64_t col, std::int64_t rows, std::int64_t cols,
                      const float* factors, bool one) const {
    std::uint8_t tile[kTile][kTile];
    for (std::int64_t r = 0; r < rows; ++r)
      convert_(element(context_, op_.x, row + r, col), factors, one, tile[r], cols);
    for (std::int64_t c = 0; c < cols; ++c) {
      std::uint8_t* const y =
          context_.data_as<std::uint8_t>(op_.y_transposed) + (col + c) * op_.y_transposed.pitch + row;
      for (std::int64_t r = 0; r < rows; ++r) y[r] = tile[r][c];
    }
  }

  const Quantize& op_;
  const Context& context_;
  const DType dtype_;
  const QuantizeKernels& kernels_;
  const ElementType type_;
  void (*const convert_)(const void*, const float*, bool, std::uint8_t*, std::int64_t);
};

}  // namespace

void FusedFloat8::rows(std::int64_t begin, std::int64_t end,
                       FunctionRef<void(std::int64_t, std::int64_t)> write) {
  if (!amax_ && !quantized_) return write(begin, end);
  const std::int64_t piece = grain_of_rows(y_.cols);
  for (std::int64_t first = begin; first < end; first += piece) {
    const std::int64_t last = std::min(end, first + piece);
    write(first, last);
    if (amax_) look(first, last);
    if (quantized_) quantize(first, last);
  }
}

void FusedFloat8::look(std::int64_t begin, std::int64_t end) {
  const auto amax = kernels(context_.isa).amax[element_type(y_)];
  std::uint32_t here = 0;
  for (std::int64_t row = begin; row < end; ++row) here = amax(element(context_, y_, row, 0), y_.cols, here);
  std::uint32_t seen = most_.load(std::memory_order_relaxed);
  while (seen < here && !most_.compare_exchange_weak(seen, here, std::memory_order_relaxed)) {
  }
}

void FusedFloat8::quantize(std::int64_t begin, std::int64_t end) const {
  Quantize op;
  static_cast<Operand&>(op.x) = y_;
  static_cast<Operand&>(op.y) = quantized_;
  static_cast<Operand&>(op.scale) = scale_;
  Quantizer(op, context_).some_rows(begin, end);
}

void FusedFloat8::finish() const {
  if (amax_) *context_.data_as<float>(amax_) = std::bit_cast<float>(most_.load());
}

void run(const Amax& op, const Context& context) {
  TITAN_CHECK(float8_problem(op).empty(), "{}", float8_problem(op));
  FusedFloat8 fused(context, op.x, op.amax);
  context.team.parallel_for(op.x.rows, grain_of_rows(op.x.cols), [&](std::int64_t begin, std::int64_t end) {
    fused.rows(begin, end, [](std::int64_t, std::int64_t) {});
  });
  fused.finish();
}

void run(const Quantize& op, const Context& context) {
  TITAN_CHECK(float8_problem(op).empty(), "{}", float8_problem(op));
  Quantizer quantizer(op, context);
  if (op.amax)
    quantizer.by_tensor();
  else
    quantizer.by_row();
}

}  // namespace titan::cpu
