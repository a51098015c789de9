#include "kernels/cost/cost.h"

#include <catch2/catch.hpp>

#include "kernels/cost/workspace.h"

namespace titan {
namespace {

template <class Kind>
Kind operand(ValueId value, DType dtype, std::int64_t rows, std::int64_t cols) {
  Kind o;
  o.value = value;
  o.dtype = dtype;
  o.rows = rows;
  o.cols = o.pitch = cols;
  return o;
}

Machine simple_machine() {
  Machine m = cpu_machine("avx2", 2, 1e12, 4e12, 1e10, 1 << 30);
  m.launch_seconds = 1e-6;
  m.near = {1e9, 1e-5};
  m.far = {1e8, 1e-4};
  return m;
}

TEST_CASE("a GEMM costs two operations a multiplication, whatever is transposed") {
  Gemm op;
  op.a = operand<In>(0, DType::bf16, 100, 300);
  op.b = operand<In>(1, DType::bf16, 300, 200);
  op.c = operand<Result>(2, DType::f32, 100, 200);
  const Cost c = cost(op, simple_machine());
  CHECK(c.flops == 2 * 100 * 200 * 300);
  CHECK(c.bytes_read == (100 * 300 + 300 * 200) * 2);
  CHECK(c.bytes_written == 100 * 200 * 4);
  op.a = operand<In>(0, DType::bf16, 300, 100);
  op.transpose_a = true;
  CHECK(cost(op, simple_machine()).flops == c.flops);
  op.c.accumulates = true;
  CHECK(cost(op, simple_machine()).bytes_read == c.bytes_read + 100 * 200 * 4);
}

TEST_CASE("time is the larger of arithmetic and traffic, and the launch") {
  const Machine m = simple_machine();
  Gemm large;
  large.a = operand<In>(0, DType::f32, 4096, 4096);
  large.b = operand<In>(1, DType::f32, 4096, 4096);
  large.c = operand<Result>(2, DType::f32, 4096, 4096);
  CHECK(cost(large, m).seconds == Approx(2.0 * 4096 * 4096 * 4096 / 1e12 + 1e-6));
  large.a.dtype = large.b.dtype = DType::bf16;
  CHECK(cost(large, m).seconds == Approx(2.0 * 4096 * 4096 * 4096 / 4e12 + 1e-6));
  Copy copy;
  copy.x = operand<In>(0, DType::f32, 10, 1000);
  copy.y = operand<Out>(1, DType::f32, 10, 1000);
  CHECK(cost(copy, m).seconds == Approx(80000 / 1e10 + 1e-6));
}

TEST_CASE("8-bit floats cost a byte, and multiply at their own peak") {
  Machine m = simple_machine();
  CHECK(m.flops_f8 == m.flops_bf16);  // a CPU multiplies them as bf16
  m.flops_f8 = 8e12;
  Gemm op;
  op.a = operand<In>(0, DType::f8e5m2, 4096, 4096);
  op.b = operand<In>(1, DType::f8e4m3, 4096, 4096);
  op.c = operand<Result>(2, DType::bf16, 4096, 4096);
  op.transpose_b = true;
  CHECK(cost(op, m).seconds == Approx(2.0 * 4096 * 4096 * 4096 / 8e12 + 1e-6));
  CHECK(cost(op, m).bytes_read == 2 * 4096 * 4096);
  Quantize quantize;
  quantize.x = operand<In>(0, DType::bf16, 64, 32);
  quantize.amax = operand<In>(1, DType::f32, 1, 1);
  quantize.y = operand<Out>(2, DType::f8e4m3, 64, 32);
  quantize.y_transposed = operand<Out>(3, DType::f8e4m3, 32, 64);
  quantize.scale = operand<Out>(4, DType::f32, 1, 1);
  CHECK(cost(quantize, m).bytes_read == 2 * 64 * 32 + 4);
  CHECK(cost(quantize, m).bytes_written == 2 * 64 * 32 + 4);
  CHECK(known_machine("h200")->flops_f8 == Approx(2 * known_machine("h200")->flops_bf16).epsilon(0.001));
}

TEST_CASE("attention counts the pairs that causality leaves") {
  CHECK(causal_pairs(4, 4) == 10);
  CHECK(causal_pairs(1, 9) == 9);
  CHECK(causal_pairs(2, 4) == 7);
  CHECK(causal_pairs(9, 2) == 3);
  Attention op;
  op.shape = {.sequences = 3, .heads = 4, .kv_heads = 2, .head_dim = 8, .scale = 1};
  op.q = operand<In>(0, DType::bf16, 12, 32);
  op.k = operand<In>(1, DType::bf16, 12, 16);
  op.v = operand<In>(2, DType::bf16, 12, 16);
  CHECK(cost(op, simple_machine()).flops == 3 * 4 * 10 * 4 * 8);
}

TEST_CASE("an embedding reads the rows it needs") {
  Embedding op;
  op.tokens = operand<In>(0, DType::i32, 10, 1);
  op.table = operand<In>(1, DType::bf16, 1000, 64);
  op.y = operand<Out>(2, DType::bf16, 10, 64);
  CHECK(cost(op, simple_machine()).bytes_read == 10 * 4 + 10 * 64 * 2);
}

TEST_CASE("a collective costs its wire, on the link of its axis") {
  AllGather op;
  op.shard = operand<In>(0, DType::bf16, 1, 1 << 20);
  op.full = operand<Out>(1, DType::bf16, 1, 8 << 20);
  op.axis = Axis::tp;
  const double wire = 7.0 * (2 << 20);
  CHECK(cost(op, simple_machine()).seconds == Approx(wire / 1e9 + 1e-5 + 1e-6));
  op.axis = Axis::dp_shard;
  CHECK(cost(op, simple_machine()).seconds == Approx(wire / 1e8 + 1e-4 + 1e-6));
  op.full.cols = op.full.pitch = op.shard.cols;
  CHECK(cost(op, simple_machine()).seconds == Approx(4.0 * (1 << 20) / 1e10 + 1e-6));
}

TEST_CASE("scratch sizes follow from shapes") {
  CHECK(rms_norm_grad_blocks(1) == 1);
  CHECK(rms_norm_grad_blocks(65) == 3);
  CHECK(rms_norm_grad_blocks(1 << 20) == 128);
  CHECK(embedding_grad_order(10, 100) == 111);
  CHECK(square_sum_blocks(1) == 1);
  CHECK(square_sum_blocks(65537) == 2);
  CHECK(square_sum_blocks(std::int64_t{1024} * 65536) == 1024);
  CHECK(square_sum_blocks(std::int64_t{1024} * 65536 + 1) == 513);
  CHECK(gemm_workspace_bytes({}, simple_machine()) == 0);
  CHECK(gemm_workspace_bytes({}, *known_machine("h200")) == 32 << 20);
}

TEST_CASE("known machines") {
  for (const char* name : {"a100", "h100", "h200"}) {
    const auto m = known_machine(name);
    REQUIRE(m);
    CHECK(m->name == name);
    CHECK(m->flops_bf16 > m->flops_f32);
  }
  CHECK_FALSE(known_machine("abacus"));
}

}  // namespace
}  // namespace titan
