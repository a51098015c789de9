// Which attention runs where.
#include "kernels/cuda/attention/choice.h"

#include <catch2/catch.hpp>
#include <cstdlib>

namespace titan::cuda {
namespace {

constexpr DeviceInfo kAmpere{.compute_capability = 80}, kHopper{.compute_capability = 90},
    kTuring{.compute_capability = 75};
constexpr AttentionKernel kGeneral = AttentionKernel::general, kTensorCore = AttentionKernel::tensor_core;

template <class Kind>
Kind operand(DType dtype, std::int64_t cols, std::int64_t pitch) {
  Kind o;
  o.value = 0;
  o.dtype = dtype;
  o.rows = 256;
  o.cols = cols;
  o.pitch = pitch;
  return o;
}

Attention forward(int head_dim, DType dtype = DType::bf16, std::int64_t padding = 0) {
  const int q_cols = 4 * head_dim, k_cols = 2 * head_dim;
  Attention op;
  op.q = operand<In>(dtype, q_cols, q_cols + padding);
  op.k = op.v = operand<In>(dtype, k_cols, k_cols + padding);
  op.out = operand<Out>(dtype, q_cols, q_cols + padding);
  op.shape = {1, 4, 2, head_dim, 0.125f};
  return op;
}

AttentionGrad backward(int head_dim, DType result, std::int64_t padding = 0) {
  const Attention from = forward(head_dim);
  AttentionGrad op;
  op.dout = op.q = from.q;
  op.k = op.v = from.k;
  op.dq = operand<Result>(result, from.q.cols, from.q.cols + padding);
  op.dk = op.dv = operand<Result>(result, from.k.cols, from.k.cols + padding);
  op.shape = from.shape;
  return op;
}

TEST_CASE("bf16 heads of 64 and 128 run on tensor cores, all else on the general kernel") {
  for (const int head_dim : {1, 8, 16, 32, 64, 80, 96, 128, 256}) {
    INFO(head_dim);
    const AttentionKernel want = head_dim == 64 || head_dim == 128 ? kTensorCore : kGeneral;
    CHECK(attention_kernel(forward(head_dim), kHopper, true) == want);
    CHECK(attention_kernel(forward(head_dim), kAmpere, true) == want);
    CHECK(attention_kernel(forward(head_dim), kTuring, true) == kGeneral);
    CHECK(attention_kernel(forward(head_dim, DType::f32), kHopper, true) == kGeneral);
    CHECK(attention_kernel(backward(head_dim, DType::bf16), kHopper, true) == want);
    CHECK(attention_kernel(backward(head_dim, DType::f32), kHopper, true) == want);
    CHECK(attention_kernel(backward(head_dim, DType::f32), kTuring, true) == kGeneral);
  }
}

TEST_CASE("rows that 16-byte copies cannot read run on the general kernel") {
  CHECK(attention_kernel(forward(64, DType::bf16, 8), kHopper, true) == kTensorCore);
  CHECK(attention_kernel(forward(64, DType::bf16, 4), kHopper, true) == kGeneral);
  CHECK(attention_kernel(forward(64), kHopper, false) == kGeneral);
  CHECK(attention_kernel(backward(128, DType::bf16, 8), kHopper, true) == kTensorCore);
  CHECK(attention_kernel(backward(128, DType::bf16, 3), kHopper, true) == kGeneral);
  CHECK(attention_kernel(backward(128, DType::bf16), kHopper, false) == kGeneral);
}

TEST_CASE("a scale that is not positive runs on the general kernel") {
  Attention op = forward(64);
  op.shape.scale = -1;
  CHECK(attention_kernel(op, kHopper, true) == kGeneral);
}

TEST_CASE("Hopper's kernel runs where it is asked for and can") {
  CHECK_FALSE(verified(AttentionKernel::hopper, 90));  // says scripts/gpu_check.sh; then this line changes
  setenv("TITAN_CUDA_ATTENTION", "hopper", 1);
  CHECK(attention_kernel(forward(128), kHopper, true) == AttentionKernel::hopper);
  CHECK(attention_kernel(forward(64, DType::bf16, 8), kHopper, true) == AttentionKernel::hopper);
  CHECK(attention_kernel(forward(64), kAmpere, true) == kTensorCore);
  CHECK(attention_kernel(forward(96), kHopper, true) == kGeneral);
  CHECK(attention_kernel(forward(64), kHopper, false) == kGeneral);
  Attention cached = forward(64);
  cached.kv_length = operand<In>(DType::i32, 1, 1);
  CHECK(attention_kernel(cached, kHopper, true) == kTensorCore);
  CHECK(attention_kernel(backward(128, DType::bf16), kHopper, true) == AttentionKernel::hopper);
  CHECK(attention_kernel(backward(64, DType::f32), kHopper, true) == AttentionKernel::hopper);
  CHECK(attention_kernel(backward(64, DType::f32), kAmpere, true) == kTensorCore);
  CHECK(attention_kernel(backward(128, DType::bf16, 3), kHopper, true) == kGeneral);
  setenv("TITAN_CUDA_ATTENTION", "tensor_core", 1);
  CHECK(attention_kernel(forward(128), kHopper, true) == kTensorCore);
  unsetenv("TITAN_CUDA_ATTENTION");
  CHECK(attention_kernel(forward(128), kHopper, true) == kTensorCore);
}

TEST_CASE("what attention takes is said") {
  CHECK(describe_attention(75) == "general kernels");
  CHECK(describe_attention(80) == "kernels of mma.sync");
  CHECK_THAT(describe_attention(90), Catch::Contains("wait to be verified"));
  setenv("TITAN_CUDA_ATTENTION", "hopper", 1);
  CHECK_THAT(describe_attention(90), Catch::Contains("kernels of TMA and wgmma, not verified"));
  unsetenv("TITAN_CUDA_ATTENTION");
}

TEST_CASE("the environment asks for a kernel by its name, and for none by another") {
  setenv("TITAN_CUDA_ATTENTION", "general", 1);
  CHECK(attention_kernel(forward(128), kHopper, true) == kGeneral);
  CHECK(attention_kernel(backward(64, DType::bf16), kAmpere, true) == kGeneral);
  CHECK(describe_attention(90) == "general kernels, as TITAN_CUDA_ATTENTION asks");
  setenv("TITAN_CUDA_ATTENTION", "hoper", 1);
  CHECK_THROWS_WITH(
      attention_kernel(forward(128), kHopper, true),
      Catch::Contains("TITAN_CUDA_ATTENTION=hoper") && Catch::Contains("tensor_core and hopper are"));
  setenv("TITAN_CUDA_ATTENTION", "hopper", 1);
  CHECK(describe_attention(80) == "kernels of mma.sync");
  setenv("TITAN_CUDA_ATTENTION", "", 1);
  CHECK(attention_kernel(forward(128), kHopper, true) == kTensorCore);
  unsetenv("TITAN_CUDA_ATTENTION");
}

TEST_CASE("kernels have names") {
  CHECK(to_string(kGeneral) == "general");
  CHECK(to_string(kTensorCore) == "tensor_core");
  CHECK(to_string(AttentionKernel::hopper) == "hopper");
}

}  // namespace
}  // namespace titan::cuda
