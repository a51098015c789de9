#include <cmath>

#include "tests/kernels/ops/op_table.h"

namespace titan::op_test {
namespace {

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// --- Forward
Case forward_case(DType dtype, std::int64_t rows, std::int64_t cols, std::int64_t padding) {
  CaseBuilder b(static_cast<unsigned>(rows + cols), padding);
  SwiGlu op;
  op.gate_up = b.given<In>(dtype, b.normal(rows, 2 * cols, 3));
  op.y = b.blank<Out>(dtype, rows, cols);
  return b.finish(op, [op, rows, cols](Contents& v) {
    const Matrix& x = v[op.gate_up];
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t c = 0; c < cols; ++c) v[op.y](r, c) = x(r, c) * sigmoid(x(r, c)) * x(r, cols + c);
  });
}

/// Gates where e^-x leaves the range of f32.
Case extreme_case(DType dtype) {
  CaseBuilder b(1);
  SwiGlu op;
  Matrix x(1, 10, 1);
  const double gates[] = {-1000, -89, -87, 90, 1000};
  for (int i = 0; i < 5; ++i) x(0, i) = gates[i];
  op.gate_up = b.given<In>(dtype, x);
  op.y = b.blank<Out>(dtype, 1, 5);
  return b.finish(op, [op](Contents& v) {
    const Matrix& x = v[op.gate_up];
    for (int i = 0; i < 5; ++i) v[op.y](0, i) = x(0, i) * sigmoid(x(0, i)) * x(0, 5 + i);
  });
}

void forward_tests(Emit emit) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    emit(forward_case(dtype, 1, 1, 0));
    emit(forward_case(dtype, 7, 33, 3));
    emit(forward_case(dtype, 5, 64, 0));
    emit(forward_case(dtype, 33, 1000, 1));
    emit(extreme_case(dtype));
  }
}

void forward_bench(Emit emit) {
  emit(forward_case(DType::bf16, 2048, 5632, 0));
  emit(forward_case(DType::f32, 2048, 5632, 0));
}

// --- Backward
Case backward_case(DType dtype, std::int64_t rows, std::int64_t cols, std::int64_t padding) {
  CaseBuilder b(static_cast<unsigned>(rows + cols), padding);
  SwiGluGrad op;
  op.dy = b.given<In>(dtype, b.normal(rows, cols));
  op.gate_up = b.given<In>(dtype, b.normal(rows, 2 * cols, 3));
  op.dgate_up = b.blank<Out>(dtype, rows, 2 * cols);
  const auto reference = [op, rows, cols](Contents& v) {
    const Matrix &dy = v[op.dy], &x = v[op.gate_up];
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t c = 0; c < cols; ++c) {
        const double g = x(r, c), u = x(r, cols + c), s = sigmoid(g);
        v[op.dgate_up](r, c) = dy(r, c) * u * (s + g * s * (1 - s));
        v[op.dgate_up](r, cols + c) = dy(r, c) * g * s;
      }
  };
  const auto objective = [op, rows, cols](const Contents& v) {
    double total = 0;
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t c = 0; c < cols; ++c)
        total +=
            v[op.dy](r, c) * v[op.gate_up](r, c) * sigmoid(v[op.gate_up](r, c)) * v[op.gate_up](r, cols + c);
    return total;
  };
  return b.finish(op, reference, {objective, {{op.gate_up, op.dgate_up}}});
}

void backward_tests(Emit emit) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    emit(backward_case(dtype, 1, 1, 0));
    emit(backward_case(dtype, 7, 33, 3));
    emit(backward_case(dtype, 5, 64, 0));
    emit(backward_case(dtype, 33, 200, 1));
  }
}

void backward_bench(Emit emit) {
  emit(backward_case(DType::bf16, 2048, 5632, 0));
  emit(backward_case(DType::f32, 2048, 5632, 0));
}

const AddRow forward_row{"swiglu", forward_tests, forward_bench};
const AddRow backward_row{"swiglu_grad", backward_tests, backward_bench};

}  // namespace
}  // namespace titan::op_test
