// Attention over pieces of the keys, as context parallelism computes it, against attention over all of them.
// The operations themselves are checked against their definitions in the op table (tests/kernels/ops).
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>
#include <random>
#include <vector>

#include "kernels/cpu/base/run.h"
#include "kernels/cpu/base/team.h"

namespace titan::cpu {
namespace {

/// Memory of operands, by value.
class Arena {
 public:
  template <class Kind, class T>
  Kind bind(std::vector<T>& elements, std::int64_t rows) {
    Kind operand;
    operand.value = static_cast<ValueId>(addresses_.size());
    operand.dtype = std::is_same_v<T, float> ? DType::f32 : DType::i32;
    operand.rows = rows;
    operand.cols = operand.pitch = static_cast<std::int64_t>(elements.size()) / rows;
    addresses_.push_back(reinterpret_cast<std::byte*>(elements.data()));
    return operand;
  }
  template <class OpType>
  void run(const OpType& op, std::uint32_t overwrite = 0) const {
    const Team team(2);
    const Binding binding{addresses_.data(), overwrite};
    cpu::run(op, {.binding = binding, .team = team, .isa = best_isa()});
  }

 private:
  std::vector<std::byte*> addresses_;
};

using Floats = std::vector<float>;
using Ints = std::vector<std::int32_t>;

struct Forward {
  Floats out, lse;
};
struct Gradients {
  Floats dq, dk, dv;
};

/// One sequence of 150 queries with 6 heads over 2, in two documents, and keys in no particular order.
struct Problem {
  static constexpr std::int64_t kQueries = 150, kKeys = 150;
  AttentionShape shape{1, 6, 2, 16, 0.25f};
  Floats q, k, v, dout;
  Ints q_position, k_position, doc_start;

  Problem() : q_position(kQueries), k_position(kKeys), doc_start(kQueries) {
    std::mt19937 random(3);
    std::normal_distribution<float> normal;
    const auto fill = [&](Floats& values, std::int64_t rows, int heads) {
      values.resize(static_cast<std::size_t>(rows * heads * shape.head_dim));
      for (float& x : values) x = normal(random);
    };
    fill(q, kQueries, shape.heads);
    fill(dout, kQueries, shape.heads);
    fill(k, kKeys, shape.kv_heads);
    fill(v, kKeys, shape.kv_heads);
    std::iota(q_position.begin(), q_position.end(), 0);
    std::iota(k_position.begin(), k_position.end(), 0);
    std::shuffle(k_position.begin(), k_position.end(), random);
    for (std::size_t i = 0; i < doc_start.size(); ++i) doc_start[i] = i < 70 ? 0 : 70;
  }

  /// The same with `count` of the keys.
  Problem piece(std::int64_t first, std::int64_t count) const {
    Problem p = *this;
    const std::int64_t width = shape.kv_heads * shape.head_dim;
    p.k.assign(k.begin() + first * width, k.begin() + (first + count) * width);
    p.v.assign(v.begin() + first * width, v.begin() + (first + count) * width);
    p.k_position.assign(k_position.begin() + first, k_position.begin() + first + count);
    return p;
  }
  std::int64_t keys() const { return static_cast<std::int64_t>(k_position.size()); }

  Forward forward() {
    Forward result{Floats(q.size()), Floats(static_cast<std::size_t>(kQueries * shape.heads))};
    Arena arena;
    Attention op;
    op.shape = shape;
    op.q = arena.bind<In>(q, kQueries);
    op.k = arena.bind<In>(k, keys());
    op.v = arena.bind<In>(v, keys());
    op.q_position = arena.bind<In>(q_position, kQueries);
    op.k_position = arena.bind<In>(k_position, keys());
    op.doc_start = arena.bind<In>(doc_start, kQueries);
    op.out = arena.bind<Out>(result.out, kQueries);
    op.lse = arena.bind<Out>(result.lse, kQueries);
    arena.run(op);
    return result;
  }

  /// From the out and lse of all keys; dq adds onto `dq` unless that is empty.
  Gradients backward(Forward& whole, const Floats& dq) {
    Gradients result{dq, Floats(k.size()), Floats(v.size())};
    result.dq.resize(q.size());
    Floats delta(whole.lse.size());
    Arena arena;
    AttentionDelta delta_op;
    delta_op.head_dim = shape.head_dim;
    delta_op.dout = arena.bind<In>(dout, kQueries);
    delta_op.out = arena.bind<In>(whole.out, kQueries);
    delta_op.delta = arena.bind<Out>(delta, kQueries);
    arena.run(delta_op);

    AttentionGrad op;
    op.shape = shape;
    op.dout = delta_op.dout;
    op.q = arena.bind<In>(q, kQueries);
    op.k = arena.bind<In>(k, keys());
    op.v = arena.bind<In>(v, keys());
    op.lse = arena.bind<In>(whole.lse, kQueries);
    op.delta = arena.bind<In>(delta, kQueries);
    op.q_position = arena.bind<In>(q_position, kQueries);
    op.k_position = arena.bind<In>(k_position, keys());
    op.doc_start = arena.bind<In>(doc_start, kQueries);
    op.dq = arena.bind<Result>(result.dq, kQueries);
    op.dq.accumulates = true;
    op.dk = arena.bind<Result>(result.dk, keys());
    op.dv = arena.bind<Result>(result.dv, keys());
    constexpr int kDqIndex = 9;
    arena.run(op, dq.empty() ? 1u << kDqIndex : 0);
    return result;
  }
};

Forward merge(Forward& a, Forward& b, int head_dim) {
  Forward result{Floats(a.out.size()), Floats(a.lse.size())};
  Arena arena;
  MergeLse op;
  op.head_dim = head_dim;
  op.out_a = arena.bind<In>(a.out, Problem::kQueries);
  op.lse_a = arena.bind<In>(a.lse, Problem::kQueries);
  op.out_b = arena.bind<In>(b.out, Problem::kQueries);
  op.lse_b = arena.bind<In>(b.lse, Problem::kQueries);
  op.out = arena.bind<Out>(result.out, Problem::kQueries);
  op.lse = arena.bind<Out>(result.lse, Problem::kQueries);
  arena.run(op);
  return result;
}

double largest_difference(const Floats& a, const Floats& b) {
  REQUIRE(a.size() == b.size());
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(double{a[i]} - b[i]));
  return largest;
}

Floats joined(Floats a, const Floats& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

constexpr std::int64_t kCut = 61;

TEST_CASE("merged attentions over two pieces of the keys are the attention over all keys") {
  Problem whole;
  Problem first = whole.piece(0, kCut), second = whole.piece(kCut, Problem::kKeys - kCut);
  const Forward want = whole.forward();
  Forward a = first.forward(), b = second.forward();
  const Forward got = merge(a, b, whole.shape.head_dim);
  CHECK(largest_difference(got.out, want.out) < 2e-6);
  CHECK(largest_difference(got.lse, want.lse) < 2e-6);
}

TEST_CASE("gradients added over two pieces of the keys are the gradients over all keys") {
  Problem whole;
  Problem first = whole.piece(0, kCut), second = whole.piece(kCut, Problem::kKeys - kCut);
  Forward result = whole.forward();
  const Gradients want = whole.backward(result, {});
  const Gradients a = first.backward(result, {});
  const Gradients b = second.backward(result, a.dq);
  CHECK(largest_difference(b.dq, want.dq) < 1e-5);
  CHECK(largest_difference(joined(a.dk, b.dk), want.dk) < 1e-5);
  CHECK(largest_difference(joined(a.dv, b.dv), want.dv) < 1e-5);
}

}  // namespace
}  // namespace titan::cpu
