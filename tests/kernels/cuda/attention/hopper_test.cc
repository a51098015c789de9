// The kernels for Hopper against those for all tensor cores, which the op table checks: more tiles than one
// list holds, and dense, causal and packed rows. The op table runs on it too: cuda_op_test with
// TITAN_CUDA_ATTENTION=hopper.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <random>
#include <vector>

#include "kernels/base/bf16.h"
#include "kernels/cuda/attention/kernels.h"
#include "kernels/cuda/dialect.h"

namespace titan::cuda {
namespace {

struct alignas(16) Eight {
  bf16 x[8];
};

class Heads {
 public:
  Heads(std::int64_t rows, std::int64_t cols, unsigned seed)
      : cols_(cols), x_(static_cast<std::size_t>(rows * cols / 8)) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    for (Eight& eight : x_)
      for (bf16& x : eight.x) x = to_bf16(seed == 0 ? 0 : normal(random));
  }
  HeadRows rows() { return {reinterpret_cast<std::byte*>(x_.data()), cols_, true}; }
  float operator[](std::size_t i) const { return to_float(x_[i / 8].x[i % 8]); }
  std::size_t size() const { return x_.size() * 8; }

 private:
  std::int64_t cols_;
  std::vector<Eight> x_;
};

struct Dims {
  int sequences, q_length, k_length, heads, kv_heads, head_dim, document;
};

double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    largest = std::max(largest, std::abs(static_cast<double>(a[i]) - b[i]));
  return largest;
}

void synchronize() {
  const cudaError_t error = cudaStreamSynchronize(nullptr);
  INFO(cudaGetErrorString(error));
  REQUIRE(error == cudaSuccess);
}

/// Gradients in f32.
struct Gradients {
  std::vector<float> dq, dk, dv;
  Gradients(std::size_t queries, std::size_t keys) : dq(queries), dk(keys), dv(keys) {}
};

/// Both backwards of one forward, whose out and lse are given.
void check_same_gradients(const ForwardProblem& forward, Heads& out, Heads& dout) {
  BackwardProblem p{};
  static_cast<AttentionProblem&>(p) = forward;
  p.q = forward.q, p.k = forward.k, p.v = forward.v, p.dout = dout.rows();
  p.lse = forward.lse, p.lse_pitch = forward.lse_pitch;
  std::vector<float> delta(out.size() / static_cast<std::size_t>(p.head_dim));
  for (std::size_t i = 0; i < out.size(); ++i)
    delta[i / static_cast<std::size_t>(p.head_dim)] += out[i] * dout[i];
  p.delta = delta.data(), p.delta_pitch = p.heads;
  const std::size_t keys =
      static_cast<std::size_t>(p.sequences) * static_cast<std::size_t>(p.k_length * p.kv_heads * p.head_dim);
  Gradients want(out.size(), keys), got(out.size(), keys);
  const auto run = [&](void (*attention)(const BackwardProblem&, cudaStream_t), Gradients& to) {
    const auto result = [](std::vector<float>& x, int cols) {
      return HeadResult{{reinterpret_cast<std::byte*>(x.data()), cols, false}, false};
    };
    p.dq = result(to.dq, p.heads * p.head_dim);
    p.dk = result(to.dk, p.kv_heads * p.head_dim), p.dv = result(to.dv, p.kv_heads * p.head_dim);
    attention(p, nullptr);
    synchronize();
  };
  run(attention_on_tensor_cores, want);
  run(attention_on_hopper, got);
  CHECK(largest_difference(got.dq, want.dq) < 1e-3);
  CHECK(largest_difference(got.dk, want.dk) < 1e-3);
  CHECK(largest_difference(got.dv, want.dv) < 1e-3);
}

/// The last q_length positions of k_length, in documents of so many tokens.
void check_same(const Dims& d) {
  INFO(d.q_length << " queries, " << d.k_length << " keys, head_dim " << d.head_dim);
  const std::int64_t queries = std::int64_t{d.sequences} * d.q_length,
                     keys = std::int64_t{d.sequences} * d.k_length;
  Heads q(queries, d.heads * d.head_dim, 1), k(keys, d.kv_heads * d.head_dim, 2),
      v(keys, d.kv_heads * d.head_dim, 3);
  std::vector<std::int32_t> q_position, doc_start, k_position;
  for (std::int64_t i = 0; i < keys; ++i) k_position.push_back(static_cast<std::int32_t>(i % d.k_length));
  for (std::int64_t i = 0; i < queries; ++i) {
    q_position.push_back(static_cast<std::int32_t>(d.k_length - d.q_length + i % d.q_length));
    doc_start.push_back(q_position.back() / d.document * d.document);
  }
  ForwardProblem p{};
  p.sequences = d.sequences, p.heads = d.heads, p.kv_heads = d.kv_heads, p.group = d.heads / d.kv_heads;
  p.head_dim = d.head_dim, p.q_length = d.q_length, p.k_length = d.k_length;
  p.scale = 1 / std::sqrt(static_cast<float>(d.head_dim));
  p.q_position = q_position.data(), p.k_position = k_position.data(), p.doc_start = doc_start.data();
  p.q = q.rows(), p.k = k.rows(), p.v = v.rows();
  p.lse_pitch = d.heads;
  const auto run = [&](void (*attention)(const ForwardProblem&, cudaStream_t), Heads& out,
                       std::vector<float>& lse) {
    p.out = out.rows();
    p.lse = lse.data();
    attention(p, nullptr);
    synchronize();
  };
  Heads want(queries, d.heads * d.head_dim, 0), got = want;
  std::vector<float> want_lse(static_cast<std::size_t>(queries * d.heads)), got_lse = want_lse;
  run(attention_on_tensor_cores, want, want_lse);
  run(attention_on_hopper, got, got_lse);
  double error = 0;
  for (std::size_t i = 0; i < want.size(); ++i)
    error = std::max(error, std::abs(static_cast<double>(got[i]) - want[i]));
  CHECK(error < 0.01);
  CHECK(largest_difference(got_lse, want_lse) < 1e-4);
  Heads dout(queries, d.heads * d.head_dim, 4);
  check_same_gradients(p, got, dout);
}

TEST_CASE("the Hopper kernels are the other ones within the rounding of bf16") {
  check_same({.sequences = 2,
              .q_length = 300,
              .k_length = 300,
              .heads = 2,
              .kv_heads = 1,
              .head_dim = 128,
              .document = 1000});
  check_same({.sequences = 1,
              .q_length = 130,
              .k_length = 900,
              .heads = 2,
              .kv_heads = 2,
              .head_dim = 64,
              .document = 200});
}

TEST_CASE("lists of tiles follow each other", "[slow]") {
  check_same({.sequences = 1,
              .q_length = 1,
              .k_length = 33'000,
              .heads = 1,
              .kv_heads = 1,
              .head_dim = 64,
              .document = 40'000});
  check_same({.sequences = 1,
              .q_length = 2,
              .k_length = 66'000,
              .heads = 1,
              .kv_heads = 1,
              .head_dim = 128,
              .document = 65'999});
}

}  // namespace
}  // namespace titan::cuda
