// The stop flag: once a loss or norm is not finite, no later step changes anything.
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "tests/support/model_runner.h"

using namespace titan;
using namespace titan::test;

namespace {

constexpr std::int64_t kRows = 32;

void feed(ModelRunner& runner, int micro_batches, std::uint32_t seed) {
  const auto tokens = random_tokens(kRows * micro_batches, 101, seed),
             targets = random_tokens(kRows * micro_batches, 101, seed + 1);
  runner.set_batch(tokens, targets);
}

}  // namespace

TEST_CASE("after a step that is not finite nothing changes, in finite steps neither") {
  const int micro_batches = GENERATE(1, 3);
  const float poison = GENERATE(std::numeric_limits<float>::infinity(), std::nanf(""));
  ModelRunner runner(tiny_config(),
                     {.sequences = 2,
                      .seq_len = 16,
                      .micro_batches = micro_batches,
                      .compute = DType::f32,
                      .loss_chunk = 16},
                     {});
  feed(runner, micro_batches, 1);
  REQUIRE(std::isfinite(runner.step(1e-2f)));
  REQUIRE(!runner.stopped());

  // One weight of one layer, as a fault of the memory would leave it.
  const std::string name = "model.layers.1.mlp.down_proj.weight";
  std::vector<float> weights = runner.weight(name), poisoned = weights;
  poisoned[100] = poison;
  runner.set_weight(name, poisoned);
  feed(runner, micro_batches, 3);
  const float loss = runner.step(1e-2f);
  CHECK(!(std::isfinite(loss) && std::isfinite(runner.grad_norm())));
  CHECK(runner.stopped());
  CHECK(runner.weight("model.norm.weight") != std::vector<float>(48, poison));

  runner.set_weight(name, weights);
  const auto state = runner.state();
  for (std::uint32_t seed = 5; seed < 8; ++seed) {
    feed(runner, micro_batches, seed);
    CHECK(std::isfinite(runner.step(1e-2f)));
    CHECK(std::isfinite(runner.grad_norm()));
    CHECK(runner.stopped());
    CHECK(runner.state() == state);
  }
  runner.initialize(0);
  CHECK(!runner.stopped());
}

TEST_CASE("a norm that overflows stops as well, with a finite loss") {
  ModelRunner runner(tiny_config(), {.sequences = 2, .seq_len = 16, .compute = DType::f32, .loss_chunk = 16},
                     {});
  feed(runner, 1, 1);
  const auto state = runner.state();
  const float tiny = 1e-30f;  // of tokens: gradients of 1e30, whose squares float32 does not have
  const int index = runner.job().index("train");
  runner.executor().write(index, runner.job().program("train").at("valid_tokens"), &tiny);
  CHECK(std::isfinite(runner.step(1e-2f)));
  CHECK(std::isinf(runner.grad_norm()));
  CHECK(runner.stopped());
  auto after = runner.state();
  std::size_t differing = 0;
  for (std::size_t i = 0; i < state.size(); ++i) differing += state[i] != after[i];
  CHECK(differing == 1);  // the flag itself
}
