#include <algorithm>

#include "tests/kernels/ops/op_table.h"

namespace titan::op_test {
namespace {

constexpr DType kFloats[] = {DType::f32, DType::bf16};
constexpr DType kAll[] = {DType::f32, DType::bf16, DType::i32, DType::i64};

struct Shape {
  std::int64_t rows, cols, padding;
};
/// Odd ones; rows that are vectors apart; several blocks of threads; one long row.
constexpr Shape kShapes[] = {{1, 1, 0},  {3, 5, 7},  {7, 33, 3},   {5, 264, 8},
                             {9, 70, 6}, {40, 8, 0}, {1, 1031, 0}, {300, 1, 0}};

/// As it is, and where vectors of 16 bytes may not start.
void emit_exact(Emit emit, Case c) {
  c.exact = true;
  emit(c);
  c.shift = 8;
  emit(c);
}

template <class F>
void for_each_shape(F f) {
  for (const Shape& shape : kShapes) f(shape);
}

// --- Cast
void cast_case(Emit emit, DType from, DType to, Shape s) {
  CaseBuilder b(1, s.padding);
  Cast op;
  op.x = b.given<In>(from, b.normal(s.rows, s.cols));
  op.y = b.blank<Out>(to, s.rows, s.cols);
  emit_exact(emit, b.finish(op, [op](Contents& v) { v[op.y] = v[op.x]; }));
}

void cast_shapes(Emit emit) {
  for (const DType from : kFloats)
    for (const DType to : kFloats) cast_case(emit, from, to, {7, 33, 3});
  for_each_shape([&](const Shape& s) { cast_case(emit, DType::f32, DType::bf16, s); });
  for_each_shape([&](const Shape& s) { cast_case(emit, DType::bf16, DType::f32, s); });
}

/// Numbers halfway between two of bf16 go to the even one.
void cast_ties(Emit emit) {
  CaseBuilder b(1);
  Cast op;
  Matrix x(1, 64);
  for (std::int64_t i = 0; i < x.cols; ++i) x(0, i) = (i % 2 == 0 ? 1 : -1) * (1 + (2 * i + 1) * 0x1p-8);
  op.x = b.given<In>(DType::f32, x);
  op.y = b.blank<Out>(DType::bf16, 1, x.cols);
  emit_exact(emit, b.finish(op, [op](Contents& v) {
    for (std::int64_t i = 0; i < op.x.cols; ++i) {
      const double sign = i % 2 == 0 ? 1 : -1, odd = 1 + 2 * i * 0x1p-8, even = odd + 2 * 0x1p-8;
      v[op.y](0, i) = sign * (i % 2 == 0 ? odd : even);
    }
  }));
}

void cast_tests(Emit emit) {
  cast_shapes(emit);
  cast_ties(emit);
}

void cast_bench(Emit emit) { cast_case(emit, DType::f32, DType::bf16, {1, 1 << 24, 0}); }

// --- Copy
void copy_case(Emit emit, DType dtype, Shape s) {
  CaseBuilder b(2, s.padding);
  Copy op;
  op.x = b.given<In>(dtype, b.integers(s.rows, s.cols, -100, 100));
  op.y = b.blank<Out>(dtype, s.rows, s.cols);
  emit_exact(emit, b.finish(op, [op](Contents& v) { v[op.y] = v[op.x]; }));
}

void copy_tests(Emit emit) {
  for (const DType dtype : kAll) for_each_shape([&](const Shape& s) { copy_case(emit, dtype, s); });
}

void copy_bench(Emit emit) { copy_case(emit, DType::bf16, {4096, 4096, 0}); }

// --- Add
void add_case(Emit emit, DType a, DType c, DType y, Shape s) {
  CaseBuilder b(3, s.padding);
  Add op;
  op.a = b.given<In>(a, b.normal(s.rows, s.cols));
  op.b = b.given<In>(c, b.normal(s.rows, s.cols, 3));
  op.y = b.blank<Out>(y, s.rows, s.cols);
  emit_exact(emit, b.finish(op, [op](Contents& v) {
    for (std::size_t i = 0; i < v[op.y].values.size(); ++i)
      v[op.y].values[i] = rounded(DType::f32, v[op.a].values[i] + v[op.b].values[i]);
  }));
}

void add_tests(Emit emit) {
  for (const DType a : kFloats)
    for (const DType b : kFloats)
      for (const DType y : kFloats) add_case(emit, a, b, y, {7, 33, 3});
  for_each_shape([&](const Shape& s) { add_case(emit, DType::f32, DType::bf16, DType::f32, s); });
  for_each_shape([&](const Shape& s) { add_case(emit, DType::bf16, DType::bf16, DType::bf16, s); });
}

void add_bench(Emit emit) { add_case(emit, DType::bf16, DType::f32, DType::f32, {1, 1 << 24, 0}); }

// --- Fill and Iota
void fill_tests(Emit emit) {
  for (const DType dtype : kAll)
    for (const Shape& s : {Shape{3, 5, 7}, {5, 264, 8}, {9, 70, 6}, {1, 1031, 0}}) {
      CaseBuilder b(4, s.padding);
      Fill op;
      op.y = b.blank<Out>(dtype, s.rows, s.cols);
      op.value = dtype == DType::i32 || dtype == DType::i64 ? -100 : 1.3f;
      emit_exact(emit, b.finish(op, [op](Contents& v) {
        std::fill(v[op.y].values.begin(), v[op.y].values.end(), op.value);
      }));
    }
}

void iota_tests(Emit emit) {
  for (const std::int64_t period : {0, 7, 300})
    for (const std::int64_t rows : {1, 33, 600}) {
      CaseBuilder b(5);
      Iota op;
      op.y = b.blank<Out>(DType::i32, rows, 1);
      op.period = period;
      emit_exact(emit, b.finish(op, [op](Contents& v) {
        for (std::int64_t r = 0; r < op.y.rows; ++r) v[op.y](r, 0) = op.period > 0 ? r % op.period : r;
      }));
    }
}

// --- Collectives of a rank that is alone
void gather_tests(Emit emit) {
  for (const DType dtype : kFloats) {
    CaseBuilder b(6);
    AllGather op;
    op.shard = b.given<In>(dtype, b.normal(3, 41));
    op.full = b.blank<Out>(dtype, 3, 41);
    emit_exact(emit, b.finish(op, [op](Contents& v) { v[op.full] = v[op.shard]; }));
  }
}

void scatter_tests(Emit emit) {
  for (const DType from : kFloats)
    for (const bool accumulates : {false, true}) {
      CaseBuilder b(7);
      ReduceScatter op;
      op.full = b.given<In>(from, b.normal(3, 41));
      op.shard = b.given<Result>(DType::f32, b.normal(1, 123));
      op.shard.accumulates = accumulates;
      emit_exact(emit, b.finish(op, [op](Contents& v) { v[op.shard].values = v[op.full].values; }));
    }
}

void all_reduce_tests(Emit emit) {
  for (const DType dtype : kFloats) {
    CaseBuilder b(8);
    AllReduce op;
    op.x = b.given<In>(dtype, b.normal(3, 41));
    op.y = b.blank<Out>(dtype, 3, 41);
    emit_exact(emit, b.finish(op, [op](Contents& v) { v[op.y] = v[op.x]; }));
  }
}

void exchange_tests(Emit emit) {
  CaseBuilder b(9);
  Exchange op;
  for (const DType dtype : kFloats) {
    op.sends.push_back(b.given<In>(dtype, b.normal(3, 41)));
    op.recvs.push_back(b.blank<Out>(dtype, 3, 41));
    op.send_peers.push_back(0);
    op.recv_peers.push_back(0);
  }
  emit_exact(emit, b.finish(op, [op](Contents& v) {
    for (std::size_t i = 0; i < op.sends.size(); ++i) v[op.recvs[i]] = v[op.sends[i]];
  }));
}

const AddRow cast_row{"cast", cast_tests, cast_bench};
const AddRow copy_row{"copy", copy_tests, copy_bench};
const AddRow add_row{"add", add_tests, add_bench};
const AddRow fill_row{"fill", fill_tests};
const AddRow iota_row{"iota", iota_tests};
const AddRow gather_row{"all_gather alone", gather_tests};
const AddRow scatter_row{"reduce_scatter alone", scatter_tests};
const AddRow all_reduce_row{"all_reduce alone", all_reduce_tests};
const AddRow exchange_row{"exchange alone", exchange_tests};

}  // namespace
}  // namespace titan::op_test
