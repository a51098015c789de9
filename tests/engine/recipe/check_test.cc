#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "engine/recipe/recipe.h"
#include "kernels/base/error.h"

namespace titan {
namespace {

using Strings = std::vector<std::string>;

Recipe with(const Strings& overrides) { return parse_recipe("", "r.toml", overrides); }

TEST_CASE("the default recipe is valid, supported and says nothing") {
  CHECK_NOTHROW(validate(Recipe()));
  CHECK_NOTHROW(check_supported(Recipe()));
  CHECK(notes(Recipe()).empty());
  CHECK(warnings(Recipe()).empty());
}

TEST_CASE("validate checks a recipe changed in code, without places") {
  Recipe recipe;
  recipe.training.seq_len = 0;
  CHECK_THROWS_WITH(validate(recipe), "training.seq_len = 0: expected an integer >= 1");
  recipe.optimizer.beta2 = 1;
  CHECK_THROWS_WITH(validate(recipe), Catch::StartsWith("2 errors in the recipe:\n"));
  CHECK_THROWS_AS(validate(recipe), UsageError);
}

TEST_CASE("what titan does not have parses, and check_supported lists it with what to use instead") {
  const Recipe recipe = with({"--parallelism.tensor_parallel_degree=8", "--model.converters=float8",
                              "--profiling.enable_profiling", "--metrics.enable_wandb"});
  CHECK_THROWS_WITH(
      check_supported(recipe),
      Catch::StartsWith("4 errors in the recipe:\n") &&
          Catch::Contains("parallelism.tensor_parallel_degree = 8 is not supported: the run has one rank") &&
          Catch::Contains("model.converters = [\"float8\"] is not supported") &&
          Catch::Contains("profiling.enable_profiling = true is not supported") &&
          Catch::Contains("metrics.enable_wandb = true is not supported: use metrics.enable_tensorboard"));
  CHECK_THROWS_AS(check_supported(recipe), UsageError);
}

TEST_CASE("one rank may be written as one shard or as all that are left") {
  CHECK_NOTHROW(check_supported(with({"--parallelism.data_parallel_shard_degree=1"})));
  CHECK_NOTHROW(check_supported(with({"--parallelism.data_parallel_shard_degree=-1"})));
  CHECK_THROWS(check_supported(with({"--parallelism.data_parallel_shard_degree=2"})));
}

TEST_CASE("a key without effect is noted once, when it differs from its default") {
  CHECK(notes(with({"--compile.enable=false"})).empty());
  const Strings lines = notes(with({"--compile.enable", "--training.gc_freq=10"}));
  CHECK(lines ==
        Strings{
            "training.gc_freq = 10 is accepted, has no effect: titan has no garbage collector",
            "compile.enable = true is accepted, has no effect: titan always compiles the whole step itself"});
}

TEST_CASE("a schedule that does not fit into its steps is a warning") {
  CHECK(warnings(with({"--training.steps=200"})).empty());
  CHECK_THAT(warnings(with({"--training.steps=100"})).at(0),
             Catch::Contains("warmup_steps = 200") && Catch::Contains("shortened to 100"));
  CHECK_THAT(warnings(with({"--training.steps=1000", "--lr_scheduler.decay_ratio=0.9"})).at(0),
             Catch::Contains("200 warmup and 900 decay steps") && Catch::Contains("shortened to 800"));
  CHECK(warnings(with({"--training.steps=100", "--lr_scheduler.total_steps=400"})).empty());
}

}  // namespace
}  // namespace titan
