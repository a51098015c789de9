#include "engine/optim/parameter_norms.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "tests/support/model_runner.h"

using namespace titan;
using namespace titan::test;

namespace {

StepShape two_micro_batches() {
  return {.sequences = 2, .seq_len = 16, .micro_batches = 2, .compute = DType::bf16, .loss_chunk = 16};
}

void feed(ModelRunner& runner) {
  const auto tokens = random_tokens(64, 101, 1), targets = random_tokens(64, 101, 2);
  runner.set_batch(tokens, targets);
}

double square_sum(const std::vector<float>& values) {
  double sum = 0;
  for (const float x : values) sum += double{x} * x;
  return sum;
}

std::vector<float> output(ModelRunner& runner, const char* name) {
  const int index = runner.job().index("train");
  const Program& p = runner.job().program("train");
  std::vector<float> values(p.parameters.size());
  runner.executor().read(index, p.at(name), values.data());
  return values;
}

}  // namespace

TEST_CASE("the norms are those of every parameter's gradient and weights, summed in double") {
  const bool tied = GENERATE(false, true);
  const Residency residency = GENERATE(Residency::per_step, Residency::per_use);
  ModelRunner runner(tiny_config(tied), two_micro_batches(),
                     {.residency = residency, .optimizer = false, .parameter_norms = true});
  feed(runner);
  runner.step();
  const auto gradients = output(runner, "gradient_square_sums"),
             weights = output(runner, "weight_square_sums");
  const auto& parameters = runner.job().program("train").parameters;
  REQUIRE(parameters.size() == (tied ? 29 : 30));
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const std::string& name = parameters[i].name;
    INFO(name);
    CHECK(gradients[i] > 0);
    CHECK(gradients[i] == Approx(square_sum(runner.gradient(name))).epsilon(1e-6));
    CHECK(weights[i] == Approx(square_sum(runner.weight(name))).epsilon(1e-6));
  }
}

TEST_CASE("norms change no bit of the step, and their gradients' are the global norm") {
  ModelRunner plain(tiny_config(), two_micro_batches(), {}),
      with_norms(tiny_config(), two_micro_batches(), {.parameter_norms = true});
  for (int step = 0; step < 3; ++step) {
    for (ModelRunner* runner : {&plain, &with_norms}) feed(*runner);
    CHECK(plain.step(1e-2f) == with_norms.step(1e-2f));
    CHECK(plain.grad_norm() == with_norms.grad_norm());
    double sum = 0;
    for (const float square : output(with_norms, "gradient_square_sums")) sum += square;
    CHECK(std::sqrt(sum) == Approx(with_norms.grad_norm()).epsilon(1e-6));
  }
  CHECK(plain.state() == with_norms.state());
}
