#include "kernels/op/float8_rules.h"

#include <fmt/format.h>

namespace titan {
namespace {

bool is_shape(const Operand& o, std::int64_t rows, std::int64_t cols) {
  return o.dtype == DType::f32 && o.rows == rows && o.cols == cols && o.contiguous();
}

std::string misfit(std::string_view what, std::int64_t size) {
  return fmt::format("{} is {}, not a multiple of {}", what, size, kFloat8Multiple);
}

std::string size_problem(const Gemm& op) {
  for (const auto& [what, size] : {std::pair{"the number of rows", op.c.rows},
                                   {"the number of columns", op.c.cols},
                                   {"the length of the sums", op.a.cols},
                                   {"the pitch of a", op.a.pitch},
                                   {"the pitch of b", op.b.pitch}})
    if (size % kFloat8Multiple != 0) return misfit(what, size);
  return {};
}

std::string problem(const Gemm& op) {
  const bool scaled = op.scale_a || op.scale_b;
  if (!is_float8(op.a.dtype) && !is_float8(op.b.dtype))
    return scaled ? "only products of 8-bit floats are scaled" : "";
  if (!is_float8(op.a.dtype) || !is_float8(op.b.dtype)) return "only one of the factors is of 8-bit floats";
  if (op.a.dtype == DType::f8e5m2 && op.b.dtype == DType::f8e5m2) return "both factors are e5m2";
  if (op.c.dtype != DType::bf16 && op.c.dtype != DType::f32)
    return fmt::format("the product is {}", to_string(op.c.dtype));
  if (op.transpose_a || !op.transpose_b) return "8-bit floats are multiplied with transpose_b alone";
  const bool whole = is_shape(op.scale_a, 1, 1) && is_shape(op.scale_b, 1, 1);
  const bool by_row = is_shape(op.scale_a, op.c.rows, 1) && is_shape(op.scale_b, op.c.cols, 1);
  if (!whole && !by_row) return "scales are neither [1, 1] nor one for each row and each column";
  return size_problem(op);
}

std::string problem(const Quantize& op) {
  const auto fits = [&](const Operand& y, std::int64_t rows, std::int64_t cols) {
    return !y || (is_float8(y.dtype) && y.rows == rows && y.cols == cols);
  };
  if (op.x.dtype != DType::bf16 && op.x.dtype != DType::f32)
    return fmt::format("x is {}", to_string(op.x.dtype));
  if (!op.y && !op.y_transposed) return "nothing is written";
  if (!fits(op.y, op.x.rows, op.x.cols) || !fits(op.y_transposed, op.x.cols, op.x.rows))
    return "y or y_transposed is not of 8-bit floats in x's shape";
  if (op.y && op.y_transposed && op.y.dtype != op.y_transposed.dtype) return "y and y_transposed differ";
  if (op.amax) {
    if (!is_shape(op.amax, 1, 1) || !is_shape(op.scale, 1, 1) || op.scale_transposed)
      return "with amax there is one scale, [1, 1]";
    return {};
  }
  if (bool(op.y) != bool(op.scale) || bool(op.y_transposed) != bool(op.scale_transposed) ||
      (op.scale && !is_shape(op.scale, op.x.rows, 1)) ||
      (op.scale_transposed && !is_shape(op.scale_transposed, op.x.cols, 1)))
    return "without amax each of y and y_transposed has a scale a row";
  return {};
}

std::string problem(const Amax& op) {
  if (op.x.dtype != DType::bf16 && op.x.dtype != DType::f32)
    return fmt::format("x is {}", to_string(op.x.dtype));
  return is_shape(op.amax, 1, 1) ? "" : "amax is not f32 [1, 1]";
}

/// What an operation finds of its result `y`.
template <class Writer>
std::string found_problem(const Writer& op, const Operand& y) {
  if (op.amax && !is_shape(op.amax, 1, 1)) return "amax is not f32 [1, 1]";
  if (!op.quantized && !op.scale) return {};
  if (op.amax) return "an amax is found, or 8-bit rows are, not both";
  if (op.quantized.dtype != DType::f8e4m3 || op.quantized.rows != y.rows || op.quantized.cols != y.cols)
    return "quantized is not e4m3 in the result's shape";
  return is_shape(op.scale, y.rows, 1) ? "" : "quantized has no scale a row";
}
std::string problem(const RmsNorm& op) { return found_problem(op, op.y); }
std::string problem(const SwiGlu& op) { return found_problem(op, op.y); }
std::string problem(const SwiGluGrad& op) { return found_problem(op, op.dgate_up); }

template <class Other>
std::string problem(const Other&) {
  return {};
}

}  // namespace

std::string float8_problem(const Op& op) {
  return std::visit([](const auto& o) { return problem(o); }, op);
}

}  // namespace titan
