// Whole training steps on the CUDA backend, on the host and on a GPU, against the CPU backend: other kernels,
// another GEMM, other reductions.
#include <catch2/catch.hpp>
#include <cmath>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/cuda/backend/cuda_backend.h"
#include "tests/kernels/cuda/backend/stream_orders.h"
#include "tests/support/model_runner.h"

namespace titan {
namespace {

using test::ModelRunner;
using test::RunnerOptions;

/// TorchTitan's debugmodel; with `head_dim` 64 the tensor-core attention runs.
ModelConfig debug_model(std::int64_t head_dim = 16) {
  return {.flavor = "debugmodel",
          .dim = 256,
          .n_layers = 6,
          .n_heads = 256 / head_dim,
          .n_kv_heads = 256 / head_dim / 2,
          .head_dim = head_dim,
          .ffn_dim = 768,
          .vocab_size = 2048};
}

RunnerOptions on_cuda(bool graphs = true) {
  RunnerOptions options;
  options.backend = [graphs] {
    return cuda::make_cuda_backend({.host = cpu::make_cpu_backend({.threads = 1}), .graphs = graphs});
  };
  return options;
}

/// Losses of some steps, each on new tokens whose successors are a function of them: something to learn,
/// slowly.
std::vector<float> losses(const ModelConfig& config, StepShape shape, const RunnerOptions& options,
                          int steps) {
  ModelRunner runner(config, shape, options);
  const std::int64_t rows = shape.tokens() * shape.micro_batches;
  std::vector<float> all;
  for (int s = 1; s <= steps; ++s) {
    const auto tokens = test::random_tokens(rows, config.vocab_size, static_cast<std::uint32_t>(s));
    std::vector<std::int32_t> targets;
    for (const std::int32_t t : tokens)
      targets.push_back((3 * t + 7) % static_cast<std::int32_t>(config.vocab_size));
    runner.set_batch(tokens, targets);
    const auto t = static_cast<float>(s);
    all.push_back(runner.step(1e-3f, 1 - std::pow(0.9f, t), 1 - std::pow(0.95f, t)));
  }
  CHECK(!runner.stopped());
  return all;
}

void check_close(const std::vector<float>& got, const std::vector<float>& want, double relative) {
  REQUIRE(got.size() == want.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    INFO("step " << i + 1);
    CHECK(got[i] == Approx(want[i]).epsilon(relative));
  }
  if (want.size() >= 100) CHECK(want.back() < 0.8f * want.front());
}

void compare(DType compute, std::int64_t head_dim, int steps, double relative) {
  const StepShape shape{.sequences = 2, .seq_len = 128, .compute = compute};
  const ModelConfig config = debug_model(head_dim);
  check_close(losses(config, shape, on_cuda(), steps), losses(config, shape, {}, steps), relative);
}

TEST_CASE("the debug model trains on CUDA as on the CPU, in float32") { compare(DType::f32, 16, 5, 1e-5); }
TEST_CASE("the debug model trains on CUDA as on the CPU, in bfloat16") { compare(DType::bf16, 64, 5, 1e-2); }
TEST_CASE("a hundred steps of the debug model on CUDA and on the CPU, in float32", "[slow]") {
  compare(DType::f32, 16, 10, 1e-5);
  compare(DType::f32, 16, 100, 1e-3);
}
TEST_CASE("a hundred steps of the debug model on CUDA and on the CPU, in bfloat16", "[slow]") {
  compare(DType::bf16, 64, 100, 1e-2);
}

TEST_CASE("the debug model trains in Float8 on CUDA as on the CPU") {
  const auto scaling =
      GENERATE(Float8Scaling::tensorwise, Float8Scaling::rowwise, Float8Scaling::rowwise_with_gw_hp);
  const StepShape shape{.sequences = 2, .seq_len = 64};
  ModelConfig config = debug_model();
  config.n_layers = 2;
  RunnerOptions cuda = on_cuda(), cpu;
  cuda.float8 = cpu.float8 = Float8Recipe{.scaling = scaling};
  check_close(losses(config, shape, cuda, 4), losses(config, shape, cpu, 4), 1e-2);
}

TEST_CASE("on CUDA every order of streams gives the same bits, in graphs or not") {
  StepShape shape{.sequences = 2, .seq_len = 24, .micro_batches = 2, .compute = DType::bf16};
  RunnerOptions offloaded = on_cuda(false);
  offloaded.offload_state = true;  // AdamW is the CPU's then, which rounds in its own way
  const std::vector<float> want = losses(test::tiny_config(), shape, on_cuda(false), 3),
                           want_offloaded = losses(test::tiny_config(), shape, offloaded, 3);
  test::in_all_stream_orders([&] {
    for (const bool graphs : {false, true}) {
      INFO("graphs " << graphs);
      RunnerOptions options = on_cuda(graphs);
      CHECK(losses(test::tiny_config(), shape, options, 3) == want);
      options.offload_state = true;
      CHECK(losses(test::tiny_config(), shape, options, 3) == want_offloaded);
    }
  });
}

}  // namespace
}  // namespace titan
