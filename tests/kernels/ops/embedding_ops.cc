#include "tests/kernels/ops/op_table.h"

namespace titan::op_test {
namespace {

/// Tokens below, inside and above the table.
Matrix tokens(CaseBuilder& b, std::int64_t count, std::int64_t table_rows, std::int64_t first_row) {
  return b.integers(count, 1, std::max<std::int64_t>(0, first_row - 2), first_row + table_rows + 1);
}

// --- Forward
Case forward_case(DType table, DType y, std::int64_t count, std::int64_t table_rows, std::int64_t cols,
                  std::int64_t first_row, std::int64_t padding) {
  CaseBuilder b(static_cast<unsigned>(count + cols), padding);
  Embedding op;
  op.tokens = b.given<In>(DType::i32, tokens(b, count, table_rows, first_row));
  op.table = b.given<In>(table, b.normal(table_rows, cols));
  op.y = b.blank<Out>(y, count, cols);
  op.first_row = first_row;
  return b.finish(op, [op](Contents& v) {
    for (std::int64_t t = 0; t < op.y.rows; ++t) {
      const std::int64_t row = static_cast<std::int64_t>(v[op.tokens](t, 0)) - op.first_row;
      if (row < 0 || row >= op.table.rows) continue;
      for (std::int64_t c = 0; c < op.y.cols; ++c) v[op.y](t, c) = v[op.table](row, c);
    }
  });
}

void forward_tests(Emit emit) {
  for (const DType table : {DType::f32, DType::bf16})
    for (const DType y : {DType::f32, DType::bf16}) {
      emit(forward_case(table, y, 1, 1, 1, 0, 0));
      emit(forward_case(table, y, 33, 17, 33, 40, 3));
      emit(forward_case(table, y, 7, 100, 64, 0, 0));
    }
}

void forward_bench(Emit emit) {
  emit(forward_case(DType::bf16, DType::bf16, 4096, 8192, 2048, 0, 0));
  emit(forward_case(DType::f32, DType::bf16, 4096, 8192, 2048, 0, 0));
}

// --- Backward. The forward is linear: its finite difference is exact.
/// `frequent`: this many of eight tokens are the same one.
Case backward_case(DType dtype, std::int64_t count, std::int64_t table_rows, std::int64_t cols,
                   std::int64_t first_row, std::int64_t padding, std::int64_t frequent = 0) {
  CaseBuilder b(static_cast<unsigned>(count + cols), padding);
  EmbeddingGrad op;
  Matrix ids = tokens(b, count, table_rows, first_row);
  for (std::int64_t t = 0; t < count; ++t)
    if (t * 5 % 8 < frequent) ids(t, 0) = static_cast<double>(first_row + table_rows / 2);
  op.tokens = b.given<In>(DType::i32, ids);
  op.dy = b.given<In>(dtype, b.normal(count, cols));
  op.dtable = b.given<Accumulate>(DType::f32, b.normal(table_rows, cols));
  op.order = b.blank<Scratch>(DType::i32, 1, count + table_rows + 1);
  op.first_row = first_row;
  return b.finish(op, [op](Contents& v) {
    for (std::int64_t t = 0; t < op.dy.rows; ++t) {
      const std::int64_t row = static_cast<std::int64_t>(v[op.tokens](t, 0)) - op.first_row;
      if (row < 0 || row >= op.dtable.rows) continue;
      for (std::int64_t c = 0; c < op.dy.cols; ++c) v[op.dtable](row, c) += v[op.dy](t, c);
    }
  });
}

void backward_tests(Emit emit) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    emit(backward_case(dtype, 1, 1, 1, 0, 0));
    emit(backward_case(dtype, 200, 17, 33, 40, 3));
    emit(backward_case(dtype, 7, 1000, 64, 0, 0));
    emit(backward_case(dtype, 300, 40, 264, 0, 8, 3));
    emit(backward_case(dtype, 70, 9, 33, 100, 1, 8));
  }
}

void backward_bench(Emit emit) {
  emit(backward_case(DType::bf16, 4096, 8192, 2048, 0, 0));
  emit(backward_case(DType::f32, 4096, 8192, 2048, 0, 0));
}

const AddRow forward_row{"embedding", forward_tests, forward_bench};
const AddRow backward_row{"embedding_grad", backward_tests, backward_bench};

}  // namespace
}  // namespace titan::op_test
