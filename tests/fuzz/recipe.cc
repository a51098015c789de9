// A recipe and its overrides, separated by NUL.
#include "engine/recipe/recipe.h"

#include "engine/model/config.h"
#include "engine/passes/recompute.h"
#include "tests/fuzz/fuzz.h"

using namespace titan;
using namespace titan::fuzz;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::vector<std::string> overrides = parts_of(text_of(data, size));
  const std::string text = overrides.front();
  overrides.erase(overrides.begin());

  Recipe recipe;
  if (!accepted([&] { recipe = parse_recipe(text, "r.toml", overrides); })) return 0;
  const std::string printed = to_toml(recipe);
  const Recipe again = parse_recipe(printed, "printed.toml");
  FUZZ_CHECK(differences(recipe, again).empty());
  FUZZ_CHECK(to_toml(again) == printed);
  validate(recipe);

  notes(recipe);
  warnings(recipe);
  accepted([&] { check_supported(recipe); });
  accepted([&] {
    const Recipe::ActivationCheckpoint& a = recipe.activation_checkpoint;
    recompute_policy(a.mode, a.selective_ac_option, a.memory_budget);
  });
  accepted([&] {
    const ModelConfig config = model_config(recipe);
    check_pass(config, recipe.training.local_batch_size, recipe.training.seq_len);
    FUZZ_CHECK(parameter_count(config) > 0);
    FUZZ_CHECK(!describe(config).empty() && !to_json(config).empty());
  });
  return 0;
}
