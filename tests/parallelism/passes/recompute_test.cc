// recompute changes what is kept, never what is computed: same bits in every mode, less memory.
#include "engine/passes/recompute.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "kernels/base/error.h"
#include "kernels/cost/cost.h"
#include "kernels/cost/machine.h"
#include "tests/support/model_runner.h"

using namespace titan;
using namespace titan::test;
using Mode = RecomputePolicy::Mode;

namespace {

const std::vector<RecomputePolicy> kPolicies{
    {.mode = Mode::none},
    {.mode = Mode::full},
    {.mode = Mode::every_layer, .every = 2},
    {.mode = Mode::selective},
    {.mode = Mode::memory_budget, .budget = 0},
    {.mode = Mode::memory_budget, .budget = 0.3},
    {.mode = Mode::memory_budget, .budget = 0.7},
    {.mode = Mode::memory_budget, .budget = 1},
};

std::vector<float> losses(const ModelConfig& config, const StepShape& shape, const RunnerOptions& options) {
  const int micro_batches = shape.micro_batches;
  ModelRunner runner(config, shape, options);
  std::vector<float> result;
  for (int s = 0; s < 4; ++s) {
    const auto tokens =
        random_tokens(shape.tokens() * micro_batches, config.vocab_size, static_cast<std::uint32_t>(s + 1));
    std::vector<std::int32_t> targets =
        random_tokens(shape.tokens() * micro_batches, config.vocab_size, static_cast<std::uint32_t>(s + 50));
    targets[3] = -100;
    runner.set_batch(tokens, targets);
    result.push_back(runner.step(1e-2f, static_cast<float>(1 - std::pow(0.9, s + 1)),
                                 static_cast<float>(1 - std::pow(0.95, s + 1))));
    result.push_back(runner.grad_norm());
  }
  return result;
}

const Machine kMachine = cpu_machine("avx2", 2, 1e11, 1e11, 2e10, std::int64_t{1} << 34);

Program train_program(const RecomputePolicy& policy, const ModelConfig& config, const StepShape& shape) {
  return recompute(build_train_program(config, shape, Mesh()), policy, kMachine);
}

std::int64_t transient_bytes(const Program& program) {
  const Program* list[] = {&program};
  return place(list).space(Space::device).programs[0].lower_bound;
}

double predicted_seconds(const Program& program) {
  double seconds = 0;
  for (const Segment& segment : program.segments)
    for (const Node& node : segment.nodes) seconds += cost(node.op, kMachine).seconds;
  return seconds;
}

}  // namespace

TEST_CASE("losses and gradient norms are the same bits in every mode, dtype, residency and accumulation") {
  const DType compute = GENERATE(DType::f32, DType::bf16);
  const int micro_batches = GENERATE(1, 2);
  const StepShape shape{
      .sequences = 2, .seq_len = 19, .micro_batches = micro_batches, .compute = compute, .loss_chunk = 16};
  const ModelConfig config = tiny_config();
  const std::vector<float> expected = losses(config, shape, {.recompute = {.mode = Mode::none}});
  CHECK(expected[0] == Approx(std::log(101.0) + 0.5).margin(0.7));
  for (const RecomputePolicy& policy : kPolicies)
    for (const Residency residency : {Residency::per_step, Residency::per_use}) {
      INFO("mode " << static_cast<int>(policy.mode) << " budget " << policy.budget << " residency "
                   << static_cast<int>(residency));
      CHECK(losses(config, shape, {.recompute = policy, .residency = residency}) == expected);
    }
}

TEST_CASE("so they are with Float8, and however long 8-bit weights live") {
  const auto scaling =
      GENERATE(Float8Scaling::tensorwise, Float8Scaling::rowwise, Float8Scaling::rowwise_with_gw_hp);
  const bool split = GENERATE(false, true);
  Float8Recipe float8{.scaling = scaling};
  if (split) float8.filters = {"k_proj", "feed_forward.w3", "layers.1.attention.wo"};
  ModelConfig config = tiny_config();
  config.vocab_size = 112;
  const StepShape shape{.sequences = 2, .seq_len = 16, .micro_batches = 2, .loss_chunk = 16};
  const std::vector<float> expected =
      losses(config, shape, {.float8 = float8, .recompute = {.mode = Mode::none}});
  CHECK(expected[0] == Approx(std::log(112.0) + 0.5).margin(0.7));
  for (const RecomputePolicy& policy : kPolicies) {
    INFO(to_string(scaling) << " mode " << static_cast<int>(policy.mode) << " budget " << policy.budget);
    float8.weights_per_use = false;
    CHECK(losses(config, shape, {.float8 = float8, .recompute = policy}) == expected);
    float8.weights_per_use = true;
    if (policy.mode != Mode::memory_budget)
      CHECK(losses(config, shape, {.float8 = float8, .recompute = policy, .residency = Residency::per_use}) ==
            expected);
  }
}

TEST_CASE("the largest magnitudes are found once, and 8-bit activations may be kept instead of bf16 ones") {
  ModelConfig config = tiny_config();
  config.vocab_size = 112;
  const StepShape shape{.sequences = 2, .seq_len = 16};
  const Float8Recipe float8{};
  const Program whole = build_train_program(config, shape, Mesh());
  const Program quantized = quantize(whole, plan_float8(whole, float8), float8);
  CHECK(saved_activation_bytes(quantized) < saved_activation_bytes(whole));
  for (const RecomputePolicy& policy : kPolicies) {
    const Program recomputed = recompute(quantized, policy, kMachine);
    for (const Node& node : recomputed.segment("backward").nodes) {
      if (node.tag.phase != Phase::recompute) continue;
      for_each_operand(node.op, [&](const Operand&, Access access, std::string_view name) {
        CHECK_FALSE((writes(access) && name == "amax"));
      });
    }
  }
}

TEST_CASE("each mode keeps less than the one before, and the budget is kept") {
  const ModelConfig config = preset("debugmodel");
  const StepShape shape{.sequences = 2, .seq_len = 512};
  const Program none = train_program({.mode = Mode::none}, config, shape),
                full = train_program({.mode = Mode::full}, config, shape);
  const std::int64_t most = saved_activation_bytes(none), least = saved_activation_bytes(full);
  const std::int64_t selective =
      saved_activation_bytes(train_program({.mode = Mode::selective}, config, shape));
  const std::int64_t second =
      saved_activation_bytes(train_program({.mode = Mode::every_layer, .every = 2}, config, shape));
  CHECK(least < selective);
  CHECK(selective < most);
  CHECK(least < second);
  CHECK(second < most);
  CHECK(transient_bytes(full) < transient_bytes(none));
  double last_seconds = predicted_seconds(full) * 1.001;
  for (const double budget : {0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0}) {
    INFO("budget " << budget);
    const Program p = train_program({.mode = Mode::memory_budget, .budget = budget}, config, shape);
    const std::int64_t kept = saved_activation_bytes(p);
    CHECK(static_cast<double>(kept - least) <= budget * static_cast<double>(most - least) + 1);
    CHECK(predicted_seconds(p) <= last_seconds);  // more memory never costs time
    last_seconds = predicted_seconds(p);
  }
  CHECK(last_seconds == Approx(predicted_seconds(none)));
}

TEST_CASE("full recompute runs each block's forward once more, without its last product") {
  const ModelConfig config = tiny_config();
  const Program p = train_program({.mode = Mode::full}, config, {.sequences = 1, .seq_len = 16});
  int gemms = 0, attentions = 0;
  for (const Node& node : p.segment("backward").nodes) {
    if (node.tag.phase != Phase::recompute) continue;
    gemms += std::holds_alternative<Gemm>(node.op) ? 1 : 0;
    attentions += std::holds_alternative<Attention>(node.op) ? 1 : 0;
  }
  CHECK(attentions == config.n_layers);
  // q|k|v, o and gate|up: nothing reads down's result again, and the last block's residual is kept for the
  // loss head.
  CHECK(gemms == 3 * config.n_layers - 1);
}

TEST_CASE("the recipe's words choose the policy") {
  CHECK(recompute_policy("none", "2", 0.5).mode == Mode::none);
  CHECK(recompute_policy("full", "2", 0.5).mode == Mode::full);
  CHECK(recompute_policy("selective", "op", 0.5).mode == Mode::selective);
  CHECK(recompute_policy("selective", "3", 0.5).every == 3);
  CHECK(recompute_policy("memory_budget", "2", 0.25).budget == 0.25);
  CHECK_THROWS_WITH(recompute_policy("some", "2", 0.5),
                    Catch::Contains("none, full, selective or memory_budget"));
  CHECK_THROWS_WITH(recompute_policy("selective", "0", 0.5), Catch::Contains("selective_ac_option"));
  CHECK_THROWS_WITH(recompute_policy("selective", "2x", 0.5), Catch::Contains("2x"));
  CHECK_THROWS_WITH(recompute_policy("memory_budget", "2", 1.5), Catch::Contains("1.5"));
}
