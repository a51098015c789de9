#include "kernels/cuda/attention/problem.h"

#include <limits>

#include "kernels/base/error.h"

namespace titan::cuda {
namespace {

int rows_of_sequence(const Operand& operand, const AttentionShape& shape) {
  TITAN_CHECK(operand.rows > 0);
  TITAN_CHECK_EQ(operand.rows % shape.sequences, 0);
  const std::int64_t rows = operand.rows / shape.sequences;
  TITAN_CHECK(rows <= std::numeric_limits<int>::max() / 2);
  return static_cast<int>(rows);
}

const std::int32_t* positions(const Operand& operand, const Context& context) {
  TITAN_CHECK(operand.dtype == DType::i32 && operand.cols == 1 && operand.contiguous());
  return context.data_as<std::int32_t>(operand);
}

HeadRows rows_of(const Operand& operand, int heads, const AttentionShape& shape, const Context& context) {
  TITAN_CHECK(operand.dtype == DType::f32 || operand.dtype == DType::bf16);
  TITAN_CHECK_EQ(operand.cols, std::int64_t{heads} * shape.head_dim);
  return {context.data(operand), operand.pitch, operand.dtype == DType::bf16};
}

template <class OpType>
void set_common(const OpType& op, const Context& context, AttentionProblem& p) {
  const AttentionShape& shape = op.shape;
  TITAN_CHECK(shape.sequences > 0 && shape.kv_heads > 0 && shape.head_dim > 0);
  TITAN_CHECK(shape.sequences <= std::numeric_limits<int>::max());
  TITAN_CHECK(shape.head_dim <= kMaxAttentionHeadDim);
  TITAN_CHECK_EQ(shape.heads % shape.kv_heads, 0);
  p.sequences = static_cast<int>(shape.sequences);
  p.heads = shape.heads;
  p.kv_heads = shape.kv_heads;
  p.group = shape.heads / shape.kv_heads;
  p.head_dim = shape.head_dim;
  p.q_length = rows_of_sequence(op.q, shape);
  p.k_length = rows_of_sequence(op.k, shape);
  p.scale = shape.scale;
  p.q_position = positions(op.q_position, context);
  p.k_position = positions(op.k_position, context);
  p.doc_start = positions(op.doc_start, context);
}

}  // namespace

ForwardProblem make_problem(const Attention& op, const Context& context) {
  ForwardProblem p{};
  set_common(op, context, p);
  p.kv_length = context.data_as<std::int32_t>(op.kv_length);
  p.q = rows_of(op.q, p.heads, op.shape, context);
  p.k = rows_of(op.k, p.kv_heads, op.shape, context);
  p.v = rows_of(op.v, p.kv_heads, op.shape, context);
  p.out = rows_of(op.out, p.heads, op.shape, context);
  p.lse = context.data_as<float>(op.lse);
  p.lse_pitch = op.lse.pitch;
  return p;
}

BackwardProblem make_problem(const AttentionGrad& op, const Context& context) {
  // All operands are present: an index among them is one among all that the op declares.
  constexpr int kDq = 9, kDk = 10, kDv = 11;
  BackwardProblem p{};
  set_common(op, context, p);
  p.dout = rows_of(op.dout, p.heads, op.shape, context);
  p.q = rows_of(op.q, p.heads, op.shape, context);
  p.k = rows_of(op.k, p.kv_heads, op.shape, context);
  p.v = rows_of(op.v, p.kv_heads, op.shape, context);
  p.lse = context.data_as<float>(op.lse);
  p.lse_pitch = op.lse.pitch;
  p.delta = context.data_as<float>(op.delta);
  p.delta_pitch = op.delta.pitch;
  const auto result = [&](const Result& operand, int heads, int index) {
    return HeadResult{rows_of(operand, heads, op.shape, context),
                      operand.accumulates && !context.overwrites(index)};
  };
  p.dq = result(op.dq, p.heads, kDq);
  p.dk = result(op.dk, p.kv_heads, kDk);
  p.dv = result(op.dv, p.kv_heads, kDv);
  return p;
}

}  // namespace titan::cuda
