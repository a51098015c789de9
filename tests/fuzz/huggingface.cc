// config.json, params.json and model.safetensors.index.json; with a NUL, config.json and then the bytes of a
// model.safetensors. A model that is read can be written as a recipe and as config.json.
#include <algorithm>

#include "engine/huggingface/config.h"
#include "engine/huggingface/import.h"
#include "engine/recipe/recipe.h"
#include "tests/fuzz/fuzz.h"

using namespace titan;
using namespace titan::fuzz;

namespace {

void use(const ForeignConfig& config) {
  Recipe recipe;
  set_model(recipe, config.model);
  FUZZ_CHECK(model_config(parse_recipe(to_toml(recipe), "printed")) == config.model);
  const std::string json = config_json(
      config.model, {.dtype = "float32", .max_positions = config.max_positions, .bos = {}, .eos = 1});
  FUZZ_CHECK(parse_config_json(json, "printed").model == config.model);
}

void use_folder(std::string_view config, std::string_view weights) {
  const std::filesystem::path folder = put("config.json", config).parent_path();
  put("model.safetensors", weights);
  accepted([&] {
    const ForeignModel model(folder);
    if (parameter_count(model.config().model) > 1 << 20) return;
    for (const ParameterSpec& p : parameters(model.config().model)) {
      std::vector<float> values(static_cast<std::size_t>(p.rows * p.cols));
      model.read(p.name, 0, values);
    }
  });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input = text_of(data, size);
  const std::size_t end = std::min(input.find('\0'), input.size());
  const std::string_view text = input.substr(0, end);
  ForeignConfig config;
  if (accepted([&] { config = parse_config_json(text, "config.json"); })) use(config);
  if (accepted([&] { config = parse_params_json(text, "params.json", 100); })) use(config);
  accepted([&] { parse_weight_index(text, "index.json"); });
  if (end < input.size()) use_folder(text, input.substr(end + 1));
  return 0;
}
