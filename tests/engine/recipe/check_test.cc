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
  const Recipe recipe =
      with({"--parallelism.tensor_parallel_degree=8", "--model.converters=mx", "--metrics.enable_wandb"});
  CHECK_THROWS_WITH(
      check_supported(recipe),
      Catch::StartsWith("3 errors in the recipe:\n") &&
          Catch::Contains("parallelism.tensor_parallel_degree = 8 is not supported: the run has one rank") &&
          Catch::Contains("model.converters = [\"mx\"] is not supported: Float8 is the one converter") &&
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

TEST_CASE("Float8 goes by both names that TorchTitan has for it") {
  CHECK_FALSE(Recipe().model.uses_float8());
  for (const char* name : {"float8", "quantize.linear.float8"}) {
    const Recipe recipe = with({std::string("--model.converters=") + name});
    CHECK(recipe.model.uses_float8());
    CHECK_NOTHROW(check_supported(recipe));
  }
  CHECK_THROWS_WITH(with({"--model.converters=float8", "--training.mixed_precision_param=float32"}),
                    Catch::Contains("Float8 needs training.mixed_precision_param = \"bfloat16\""));
  CHECK_THROWS_WITH(check_supported(with({"--model.converters=float8",
                                          "--quantize.linear.float8.filter_fqns=auto_filter_small_kn"})),
                    Catch::Contains("auto_filter_small_kn is not supported: name the layers"));
}

TEST_CASE("Float8 keys have an effect with the converter, and are noted without it") {
  const Strings keys{"--quantize.linear.float8.filter_fqns=output",
                     "--quantize.linear.float8.recipe_name=tensorwise",
                     "--quantize.linear.float8.enable_fsdp_float8_all_gather"};
  const Strings idle = notes(with(keys));
  REQUIRE(idle.size() == 3);
  for (const std::string& line : idle)
    CHECK_THAT(line, Catch::Contains("has no effect: model.converters does not name float8"));
  const Strings live = notes(with({keys[0], keys[1], keys[2], "--model.converters=float8"}));
  REQUIRE(live.size() == 1);
  CHECK_THAT(live[0], Catch::Contains("the run has one rank"));
}

TEST_CASE("what would be loaded without checkpoints is a warning") {
  const Strings load{"--checkpoint.initial_load_path=/weights", "--checkpoint.load_step=7"};
  CHECK_THAT(warnings(with(load)).at(0), Catch::Contains("initial_load_path = \"/weights\" is ignored"));
  CHECK_THAT(warnings(with(load)).at(1), Catch::Contains("load_step = 7 is ignored"));
  CHECK(warnings(with({load[0], load[1], "--checkpoint.enable"})).empty());
}

TEST_CASE("sizes that no model has are refused where they were written") {
  const std::string key = GENERATE(
      "model.dim", "model.n_layers", "model.n_heads", "model.n_kv_heads", "model.head_dim", "model.ffn_dim",
      "model.vocab_size", "training.local_batch_size", "training.global_batch_size", "training.seq_len",
      "training.loss_chunk", "validation.local_batch_size", "validation.seq_len", "debug.threads");
  const std::string size = GENERATE("3000000000", "4611686018427387904", "9223372036854775807");
  CHECK_THROWS_WITH(with({"--" + key + "=" + size}),
                    Catch::Contains(key + " = " + size + ": expected at most"));
  CHECK_THROWS_WITH(with({"--model.n_heads=1048576", "--model.head_dim=2"}),
                    Catch::Contains("model.n_heads = 1048576: expected at most 524288"));
}

}  // namespace
}  // namespace titan
