// Attention and what surrounds it: MergeLse, AttentionDelta, AttentionGrad, CacheWrite.
#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/kernels/ops/op_table.h"

namespace titan::op_test {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kProbabilityError = 1.0 / 256;  ///< rounded to bf16, relative

/// What the queries of a sequence may see.
enum class Scene {
  causal,     ///< positions 0, 1, 2, …
  documents,  ///< causal inside documents of random length
  padded,     ///< causal, every third row padded
  head_tail,  ///< queries hold two distant pieces of a longer sequence, keys other ones
  later,      ///< keys after every query: nothing is visible
  recent,     ///< queries are the last of the keys, as in decoding
};

struct Dims {
  std::int64_t sequences, q_length, k_length;
  int heads, kv_heads, head_dim;
};

AttentionShape shape_of(const Dims& d) {
  return {d.sequences, d.heads, d.kv_heads, d.head_dim, 1 / std::sqrt(static_cast<float>(d.head_dim))};
}

struct Positions {
  Matrix q, k, doc_start;
};

/// Row i of `length` of pieces `head` and `tail`, each half as long.
double head_tail_position(std::int64_t i, std::int64_t length, int head, int tail) {
  const std::int64_t half = length / 2;
  return static_cast<double>(i < half ? head * half + i : tail * half + i - half);
}

Positions make_positions(CaseBuilder& make, const Dims& d, Scene scene) {
  Positions p{Matrix(d.sequences * d.q_length, 1), Matrix(d.sequences * d.k_length, 1),
              Matrix(d.sequences * d.q_length, 1)};
  const Matrix cut = make.integers(p.q.rows, 1, 0, 9);
  for (std::int64_t r = 0; r < p.k.rows; ++r) {
    const std::int64_t i = r % d.k_length;
    p.k(r, 0) = scene == Scene::head_tail ? head_tail_position(i, d.k_length, 0, 5)
                                          : static_cast<double>(scene == Scene::later ? i + d.q_length : i);
  }
  for (std::int64_t r = 0; r < p.q.rows; ++r) {
    const std::int64_t i = r % d.q_length;
    const bool starts = i == 0 || cut(r, 0) == 0;
    p.q(r, 0) = static_cast<double>(i);
    if (scene == Scene::head_tail) p.q(r, 0) = head_tail_position(i, d.q_length, 1, 4);
    if (scene == Scene::recent) p.q(r, 0) = static_cast<double>(d.k_length - d.q_length + i);
    if (scene == Scene::padded && i % 3 == 2) p.q(r, 0) = -1;
    if (scene == Scene::documents) p.doc_start(r, 0) = starts ? p.q(r, 0) : p.doc_start(r - 1, 0);
  }
  return p;
}

/// Calls f(query row, key row) for every visible pair of one sequence's rows.
template <class OpType, class F>
void for_each_visible(const OpType& op, const Contents& c, std::int64_t q_row, F f) {
  const std::int64_t q_length = op.q.rows / op.shape.sequences, k_length = op.k.rows / op.shape.sequences;
  const std::int64_t sequence = q_row / q_length;
  const double position = c[op.q_position](q_row, 0), doc_start = c[op.doc_start](q_row, 0);
  if (position < 0) return;
  for (std::int64_t i = 0; i < k_length; ++i) {
    const std::int64_t k_row = sequence * k_length + i;
    const double key = c[op.k_position](k_row, 0);
    if (doc_start <= key && key <= position) f(k_row, i);
  }
}

double dot(const Matrix& a, std::int64_t ra, std::int64_t ca, const Matrix& b, std::int64_t rb,
           std::int64_t cb, std::int64_t n) {
  double sum = 0;
  for (std::int64_t i = 0; i < n; ++i) sum += a(ra, ca + i) * b(rb, cb + i);
  return sum;
}

/// out and lse of one query head; out is zero on entry. Keys at `limit` and after it are not read.
template <class OpType>
double attend(const OpType& op, const Contents& c, std::int64_t row, int head, std::int64_t limit,
              Matrix& out) {
  const int width = op.shape.head_dim, at = head * width,
            kv_at = head / (op.shape.heads / op.shape.kv_heads) * width;
  double sum = 0, max = -kInfinity;
  const auto score = [&](std::int64_t k_row) {
    return op.shape.scale * dot(c[op.q], row, at, c[op.k], k_row, kv_at, width);
  };
  for_each_visible(op, c, row, [&](std::int64_t k_row, std::int64_t i) {
    if (i < limit) max = std::max(max, score(k_row));
  });
  for_each_visible(op, c, row, [&](std::int64_t k_row, std::int64_t i) {
    if (i >= limit) return;
    const double p = std::exp(score(k_row) - max);
    sum += p;
    for (int j = 0; j < width; ++j) out(row, at + j) += p * c[op.v](k_row, kv_at + j);
  });
  if (sum == 0) return -kInfinity;
  for (int j = 0; j < width; ++j) out(row, at + j) /= sum;
  return max + std::log(sum);
}

void emit_attention(Emit emit, Dims d, Scene scene, DType dtype, std::int64_t padding = 0,
                    std::int64_t kv_length = -1) {
  CaseBuilder make(11, padding);
  const Positions p = make_positions(make, d, scene);
  const std::int64_t tq = d.sequences * d.q_length, tk = d.sequences * d.k_length;
  Attention op;
  op.shape = shape_of(d);
  op.q = make.given<In>(dtype, make.normal(tq, d.heads * d.head_dim));
  op.k = make.given<In>(dtype, make.normal(tk, d.kv_heads * d.head_dim));
  op.v = make.given<In>(dtype, make.normal(tk, d.kv_heads * d.head_dim));
  op.q_position = make.given<In>(DType::i32, p.q);
  op.k_position = make.given<In>(DType::i32, p.k);
  op.doc_start = make.given<In>(DType::i32, p.doc_start);
  if (kv_length >= 0) op.kv_length = make.given<In>(DType::i32, Matrix(1, 1, static_cast<double>(kv_length)));
  op.out = make.blank<Out>(dtype, tq, d.heads * d.head_dim);
  op.lse = make.blank<Out>(DType::f32, tq, d.heads);
  Case c = make.finish(op, [op, kv_length](Contents& contents) {
    for (std::int64_t row = 0; row < op.q.rows; ++row)
      for (int head = 0; head < op.shape.heads; ++head)
        contents[op.lse](row, head) =
            attend(op, contents, row, head, kv_length < 0 ? op.k.rows : kv_length, contents[op.out]);
  });
  c.growth = 64;
  c.bf16_error = op.q.dtype == DType::bf16 ? kProbabilityError : 0;
  emit(c);
}

void attention_tests(Emit emit) {
  const std::int64_t lengths[] = {1, 7, 33, 130};
  for (const std::int64_t length : lengths) {
    emit_attention(emit, {2, length, length, 3, 1, 16}, Scene::causal, DType::f32);
    emit_attention(emit, {2, length, length, 4, 2, 8}, Scene::documents, DType::bf16, 5);
  }
  for (const int head_dim : {1, 8, 16, 24, 64, 128})
    emit_attention(emit, {1, 40, 40, 2, 2, head_dim}, Scene::causal, DType::f32, 3);
  for (const int head_dim : {40, 96, 160, 256})
    emit_attention(emit, {1, 40, 70, 2, 1, head_dim}, Scene::recent, DType::f32);
  for (const int group : {1, 2, 3, 8})
    emit_attention(emit, {1, 50, 50, 2 * group, 2, 16}, Scene::documents, DType::bf16);
  for (const DType dtype : {DType::f32, DType::bf16}) {
    emit_attention(emit, {2, 33, 33, 3, 3, 24}, Scene::padded, dtype);
    emit_attention(emit, {1, 100, 240, 4, 2, 16}, Scene::head_tail, dtype);
    emit_attention(emit, {1, 5, 9, 2, 1, 16}, Scene::later, dtype);
    emit_attention(emit, {1, 200, 200, 1, 1, 64}, Scene::documents, dtype);
  }
  // Rows at multiples of 16 bytes and head sizes that tensor cores have kernels for: several tiles of queries
  // and keys, ends within tiles, tiles that are seen wholly, in part and not at all.
  for (const int head_dim : {64, 128}) {
    emit_attention(emit, {1, 1, 1, 2, 1, head_dim}, Scene::causal, DType::bf16, 8);
    emit_attention(emit, {1, 150, 150, 2, 1, head_dim}, Scene::causal, DType::bf16, 8);
    emit_attention(emit, {1, 70, 140, 1, 1, head_dim}, Scene::head_tail, DType::bf16);
    emit_attention(emit, {2, 3, 260, 2, 1, head_dim}, Scene::recent, DType::bf16, 0, 199);
    emit_attention(emit, {2, 131, 700, 2, 1, head_dim}, Scene::recent, DType::bf16);
  }
  emit_attention(emit, {2, 130, 130, 2, 2, 64}, Scene::documents, DType::bf16);
  emit_attention(emit, {1, 40, 40, 2, 2, 64}, Scene::padded, DType::bf16);
  emit_attention(emit, {1, 5, 9, 1, 1, 64}, Scene::later, DType::bf16);
  emit_attention(emit, {1, 4, 20, 1, 1, 64}, Scene::causal, DType::bf16, 0, 0);
  emit_attention(emit, {1, 1, 8300, 1, 1, 64}, Scene::recent, DType::bf16);
  // Caches longer than what they hold: one token a sequence, then a chunk of a prefill.
  emit_attention(emit, {3, 1, 130, 8, 2, 16}, Scene::recent, DType::bf16, 0, 101);
  emit_attention(emit, {2, 16, 250, 6, 2, 24}, Scene::recent, DType::f32, 0, 240);
  emit_attention(emit, {1, 4, 20, 2, 2, 8}, Scene::causal, DType::f32, 0, 0);
  emit_attention(emit, {1, 2, 9000, 1, 1, 8}, Scene::recent, DType::f32, 0, 8900);
}

void attention_bench(Emit emit) {
  emit_attention(emit, {8, 1024, 1024, 12, 4, 64}, Scene::causal, DType::bf16);
  emit_attention(emit, {8, 2048, 2048, 16, 16, 16}, Scene::causal, DType::bf16);
}

/// P and dS of one pair of a query head and a key, from the given lse and delta.
struct PairGrad {
  double p, ds;
};
PairGrad pair_grad(const AttentionGrad& op, const Contents& c, std::int64_t row, int head,
                   std::int64_t k_row) {
  const int width = op.shape.head_dim, at = head * width,
            kv_at = head / (op.shape.heads / op.shape.kv_heads) * width;
  const double score = op.shape.scale * dot(c[op.q], row, at, c[op.k], k_row, kv_at, width);
  const double p = std::exp(score - c[op.lse](row, head));
  const double dp = dot(c[op.dout], row, at, c[op.v], k_row, kv_at, width);
  return {p, p * (dp - c[op.delta](row, head))};
}

void attention_grad_reference(const AttentionGrad& op, Contents& c) {
  const int width = op.shape.head_dim;
  for (std::int64_t row = 0; row < op.q.rows; ++row)
    for (int head = 0; head < op.shape.heads; ++head)
      for_each_visible(op, c, row, [&](std::int64_t k_row, std::int64_t) {
        const int at = head * width, kv_at = head / (op.shape.heads / op.shape.kv_heads) * width;
        const PairGrad pair = pair_grad(op, c, row, head, k_row);
        for (int j = 0; j < width; ++j) {
          c[op.dq](row, at + j) += op.shape.scale * pair.ds * c[op.k](k_row, kv_at + j);
          c[op.dk](k_row, kv_at + j) += op.shape.scale * pair.ds * c[op.q](row, at + j);
          c[op.dv](k_row, kv_at + j) += pair.p * c[op.dout](row, at + j);
        }
      });
}

/// Σ dout·out of the forward at the operands of `op`.
double attention_objective(const AttentionGrad& op, const Contents& c) {
  Matrix out(op.q.rows, op.q.cols);
  for (std::int64_t row = 0; row < op.q.rows; ++row)
    for (int head = 0; head < op.shape.heads; ++head) attend(op, c, row, head, op.k.rows, out);
  double sum = 0;
  for (std::size_t i = 0; i < out.values.size(); ++i) sum += out.values[i] * c[op.dout].values[i];
  return sum;
}

struct GradOptions {
  DType dtype = DType::f32, result = DType::f32;
  bool accumulates = false, against_differences = false, bench = false;
  std::int64_t padding = 0;
};

void emit_grad(Emit emit, Dims d, Scene scene, GradOptions o) {
  CaseBuilder make(12, o.padding);
  const Positions p = make_positions(make, d, scene);
  const std::int64_t tq = d.sequences * d.q_length, tk = d.sequences * d.k_length;
  const std::int64_t q_cols = d.heads * d.head_dim, k_cols = d.kv_heads * d.head_dim;

  // lse and delta come from a forward with the same operands.
  Contents forward;
  const auto add = [&](Operand& operand, DType dtype, Matrix m) {
    for (double& x : m.values) x = rounded(dtype, x);
    operand.rows = m.rows;
    operand.cols = m.cols;
    operand.value = forward.add(std::move(m));
  };
  AttentionGrad op;
  op.shape = shape_of(d);
  add(op.dout, o.dtype, make.normal(tq, q_cols));
  add(op.q, o.dtype, make.normal(tq, q_cols));
  add(op.k, o.dtype, make.normal(tk, k_cols));
  add(op.v, o.dtype, make.normal(tk, k_cols));
  add(op.q_position, DType::i32, p.q);
  add(op.k_position, DType::i32, p.k);
  add(op.doc_start, DType::i32, p.doc_start);
  Matrix out(tq, q_cols), lse(tq, d.heads), delta(tq, d.heads);
  for (std::int64_t row = 0; row < tq && !o.bench; ++row)
    for (int head = 0; head < d.heads; ++head) {
      lse(row, head) = attend(op, forward, row, head, tk, out);
      delta(row, head) =
          dot(forward[op.dout], row, head * d.head_dim, out, row, head * d.head_dim, d.head_dim);
    }

  for (In* in : {&op.dout, &op.q, &op.k, &op.v}) *in = make.given<In>(o.dtype, forward[*in]);
  op.lse = make.given<In>(DType::f32, lse);
  op.delta = make.given<In>(DType::f32, delta);
  for (In* in : {&op.q_position, &op.k_position, &op.doc_start})
    *in = make.given<In>(DType::i32, forward[*in]);
  const auto result = [&](std::int64_t rows, std::int64_t cols) {
    Result r = o.accumulates ? make.given<Result>(o.result, make.normal(rows, cols))
                             : make.blank<Result>(o.result, rows, cols);
    r.accumulates = o.accumulates;
    return r;
  };
  op.dq = result(tq, q_cols);
  op.dk = result(tk, k_cols);
  op.dv = result(tk, k_cols);
  Gradient gradient;
  if (o.against_differences) {
    gradient.objective = [op](const Contents& c) { return attention_objective(op, c); };
    gradient.input_and_gradient = {{op.q, op.dq}, {op.k, op.dk}, {op.v, op.dv}};
  }
  Case c = make.finish(
      op, [op](Contents& contents) { attention_grad_reference(op, contents); }, gradient);
  c.growth = std::max(128.0, static_cast<double>(d.q_length) / 32);  // sums over queries
  c.bf16_error = op.q.dtype == DType::bf16 ? kProbabilityError : 0;
  emit(c);
}

void attention_grad_tests(Emit emit) {
  const GradOptions exact{.against_differences = true};
  emit_grad(emit, {2, 9, 9, 4, 2, 8}, Scene::causal, exact);
  emit_grad(emit, {1, 17, 17, 3, 1, 8}, Scene::documents, exact);
  emit_grad(emit, {1, 12, 12, 2, 2, 5}, Scene::padded, exact);
  emit_grad(emit, {1, 8, 16, 2, 1, 8}, Scene::head_tail, exact);

  const GradOptions bf16{DType::bf16, DType::bf16}, ring{DType::bf16, DType::f32, true};
  for (const std::int64_t length : {2, 7, 33, 130}) {
    emit_grad(emit, {2, length, length, 3, 1, 16}, Scene::causal, {});
    emit_grad(emit, {2, length, length, 4, 2, 8}, Scene::documents, bf16);
  }
  for (const int head_dim : {1, 16, 24, 64, 128})
    emit_grad(emit, {1, 40, 40, 2, 2, head_dim}, Scene::causal, {.accumulates = true, .padding = 3});
  for (const int group : {1, 2, 3, 8}) emit_grad(emit, {1, 50, 50, 2 * group, 2, 16}, Scene::documents, ring);
  for (const int head_dim : {40, 96, 160, 256})
    emit_grad(emit, {1, 40, 70, 2, 1, head_dim}, Scene::recent, {});
  emit_grad(emit, {2, 33, 33, 3, 3, 24}, Scene::padded, bf16);
  emit_grad(emit, {1, 100, 240, 4, 2, 16}, Scene::head_tail, ring);
  emit_grad(emit, {1, 5, 9, 2, 1, 16}, Scene::later, {});
  emit_grad(emit, {2, 1, 19, 4, 2, 16}, Scene::recent, ring);
  // As in attention_tests: what tensor cores have kernels for.
  const GradOptions padded{.dtype = DType::bf16, .result = DType::bf16, .padding = 8};
  for (const int head_dim : {64, 128}) {
    emit_grad(emit, {1, 2, 2, 2, 1, head_dim}, Scene::causal, padded);
    emit_grad(emit, {1, 70, 70, 2, 1, head_dim}, Scene::causal, padded);
  }
  emit_grad(emit, {1, 140, 140, 1, 1, 64}, Scene::causal, padded);
  emit_grad(emit, {2, 70, 70, 2, 2, 64}, Scene::documents, ring);
  emit_grad(emit, {1, 70, 140, 2, 1, 64}, Scene::head_tail, ring);
  emit_grad(emit, {1, 40, 40, 1, 1, 64}, Scene::padded, bf16);
  emit_grad(emit, {1, 5, 9, 1, 1, 64}, Scene::later, bf16);
  emit_grad(emit, {1, 8300, 2, 1, 1, 64}, Scene::causal, bf16);
  // Long enough for several parts of keys: one head and many threads cut it, many heads do not.
  emit_grad(emit, {1, 500, 500, 1, 1, 16}, Scene::causal, {});
  emit_grad(emit, {2, 220, 220, 2, 1, 16}, Scene::documents, {});
  // More tiles than a chunk of a list, of keys and of queries.
  emit_grad(emit, {1, 2, 9000, 1, 1, 8}, Scene::recent, {});
  emit_grad(emit, {1, 9000, 2, 2, 1, 8}, Scene::causal, {});
}

void attention_grad_bench(Emit emit) {
  const GradOptions bench{.dtype = DType::bf16, .result = DType::bf16, .bench = true};
  emit_grad(emit, {8, 1024, 1024, 12, 4, 64}, Scene::causal, bench);
  emit_grad(emit, {8, 2048, 2048, 16, 16, 16}, Scene::causal, bench);
}

void emit_merge(Emit emit, std::int64_t rows, int heads, int head_dim, DType dtype, std::int64_t padding) {
  CaseBuilder make(13, padding);
  MergeLse op;
  op.head_dim = head_dim;
  const std::int64_t cols = std::int64_t{heads} * head_dim;
  Matrix lse_a = make.normal(rows, heads, 5), lse_b = make.normal(rows, heads, 5);
  for (std::int64_t r = 0; r < rows; ++r) {  // some rows see nothing on one side, or on both
    if (r % 4 == 1 || r % 4 == 3) lse_a(r, 0) = -kInfinity;
    if (r % 4 == 2 || r % 4 == 3) lse_b(r, 0) = -kInfinity;
  }
  op.out_a = make.given<In>(dtype, make.normal(rows, cols));
  op.lse_a = make.given<In>(DType::f32, lse_a);
  op.out_b = make.given<In>(dtype, make.normal(rows, cols));
  op.lse_b = make.given<In>(DType::f32, lse_b);
  op.out = make.blank<Out>(dtype, rows, cols);
  op.lse = make.blank<Out>(DType::f32, rows, heads);
  emit(make.finish(op, [op](Contents& c) {
    for (std::int64_t r = 0; r < op.out.rows; ++r)
      for (std::int64_t col = 0; col < op.out.cols; ++col) {
        const std::int64_t head = col / op.head_dim;
        const double a = c[op.lse_a](r, head), b = c[op.lse_b](r, head);
        const double lse = std::log(std::exp(a) + std::exp(b));
        c[op.lse](r, head) = lse;
        c[op.out](r, col) = lse == -kInfinity ? 0
                                              : c[op.out_a](r, col) * std::exp(a - lse) +
                                                    c[op.out_b](r, col) * std::exp(b - lse);
      }
  }));
}

void merge_tests(Emit emit) {
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const int head_dim : {1, 8, 24, 64, 128, 264})
      emit_merge(emit, 37, 3, head_dim, dtype, head_dim % 3 * 8);
}

void emit_delta(Emit emit, std::int64_t rows, int heads, int head_dim, DType dtype, std::int64_t padding) {
  CaseBuilder make(14, padding);
  AttentionDelta op;
  op.head_dim = head_dim;
  op.dout = make.given<In>(dtype, make.normal(rows, std::int64_t{heads} * head_dim));
  op.out = make.given<In>(dtype, make.normal(rows, std::int64_t{heads} * head_dim));
  op.delta = make.blank<Out>(DType::f32, rows, heads);
  emit(make.finish(op, [op, heads](Contents& c) {
    for (std::int64_t r = 0; r < op.out.rows; ++r)
      for (int head = 0; head < heads; ++head)
        c[op.delta](r, head) =
            dot(c[op.dout], r, head * op.head_dim, c[op.out], r, head * op.head_dim, op.head_dim);
  }));
}

void delta_tests(Emit emit) {
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const int head_dim : {1, 8, 24, 64, 128, 264})
      emit_delta(emit, 37, 3, head_dim, dtype, head_dim % 3 * 8);
}

void cache_write_tests(Emit emit) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    CaseBuilder make(15, 3);
    CacheWrite op;
    op.sequences = 3;
    Matrix positions(3 * 4, 1);
    for (std::int64_t r = 0; r < positions.rows; ++r)
      positions(r, 0) = r % 5 == 4 ? -1 : static_cast<double>(5 + 2 * (r % 4));
    op.x = make.given<In>(dtype, make.normal(3 * 4, 10));
    op.positions = make.given<In>(DType::i32, positions);
    op.cache = make.given<State>(dtype, make.normal(3 * 17, 10));
    emit(make.finish(op, [op](Contents& c) {
      for (std::int64_t r = 0; r < op.x.rows; ++r) {
        const auto position = static_cast<std::int64_t>(c[op.positions](r, 0));
        for (std::int64_t col = 0; col < op.x.cols && position >= 0; ++col)
          c[op.cache](r / 4 * 17 + position, col) = c[op.x](r, col);
      }
    }));
  }
}

const AddRow attention_row{"attention", attention_tests, attention_bench};
const AddRow attention_grad_row{"attention_grad", attention_grad_tests, attention_grad_bench};
const AddRow merge_row{"merge_lse", merge_tests};
const AddRow delta_row{"attention_delta", delta_tests};
const AddRow cache_write_row{"cache_write", cache_write_tests};

}  // namespace
}  // namespace titan::op_test
