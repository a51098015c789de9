// config.json and params.json: what is read, and what is refused with which words.
#include "engine/huggingface/config.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "engine/recipe/recipe.h"
#include "kernels/base/error.h"

using namespace titan;
using Catch::Contains;
using nlohmann::json;

namespace {

json llama() {
  return {{"architectures", {"LlamaForCausalLM"}},
          {"model_type", "llama"},
          {"hidden_size", 64},
          {"intermediate_size", 128},
          {"num_hidden_layers", 2},
          {"num_attention_heads", 4},
          {"num_key_value_heads", 2},
          {"vocab_size", 100},
          {"rms_norm_eps", 1e-5},
          {"max_position_embeddings", 512}};
}

json with(json config, const char* key, json value) {
  config[key] = std::move(value);
  return config;
}

ModelConfig read(const json& config) { return parse_config_json(config.dump(), "config.json").model; }

std::string refusal(const json& config) {
  try {
    read(config);
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

const json kLlama3 = {{"rope_type", "llama3"},
                      {"factor", 32.0},
                      {"low_freq_factor", 1.0},
                      {"high_freq_factor", 4.0},
                      {"original_max_position_embeddings", 8192}};

}  // namespace

TEST_CASE("config.json of transformers 4 and 5 says the same model", "[huggingface]") {
  const ModelConfig old = read(with(with(llama(), "rope_theta", 5e5), "rope_scaling", kLlama3));
  json parameters = kLlama3;
  parameters["rope_theta"] = 5e5;
  CHECK(read(with(llama(), "rope_parameters", parameters)) == old);
  CHECK(old.rope_theta == 5e5);
  CHECK(old.rope_scaling == RopeScaling{32, 1, 4, 8192});
  CHECK(old.head_dim == 16);
  CHECK(read(with(llama(), "head_dim", 24)).head_dim == 24);
  CHECK(read(with(llama(), "num_key_value_heads", nullptr)).n_kv_heads == 4);
}

TEST_CASE("defaults are those of LlamaConfig", "[huggingface]") {
  json bare = llama();
  for (const char* key : {"rms_norm_eps", "num_key_value_heads", "max_position_embeddings"}) bare.erase(key);
  const ForeignConfig config = parse_config_json(bare.dump(), "config.json");
  CHECK(config.model.norm_eps == 1e-6f);
  CHECK(config.model.rope_theta == 10000);
  CHECK(config.model.rope_scaling == RopeScaling{});
  CHECK_FALSE(config.model.tie_embeddings);
  CHECK(config.max_positions == 2048);
}

TEST_CASE("what titan does not have is refused by name", "[huggingface]") {
  CHECK_THAT(refusal(with(llama(), "architectures", {"MistralForCausalLM"})), Contains("LlamaForCausalLM"));
  CHECK_THAT(refusal(with(llama(), "quantization_config", {{"quant_method", "fp8"}})),
             Contains("unquantized"));
  CHECK_THAT(refusal(with(llama(), "attention_bias", true)), Contains("attention_bias"));
  CHECK_THAT(refusal(with(llama(), "hidden_act", "gelu")), Contains("silu"));
  for (const char* type : {"linear", "dynamic", "yarn", "longrope"})
    CHECK_THAT(refusal(with(llama(), "rope_scaling", {{"type", type}, {"factor", 2.0}})),
               Contains(type) && Contains("llama3 and default"));
  CHECK_THAT(refusal(with(llama(), "rope_scaling", {{"rope_type", "llama3"}})),
             Contains("factor is missing"));
  json equal = kLlama3;
  equal["low_freq_factor"] = 4.0;
  CHECK_THAT(refusal(with(llama(), "rope_scaling", equal)), Contains("rope_low_freq_factor"));
  CHECK_THAT(refusal(with(llama(), "num_attention_heads", 3)), Contains("head_dim"));
  CHECK_THAT(refusal(with(llama(), "hidden_size", -4)), Contains("model.dim"));
  CHECK_THAT(refusal(with(llama(), "hidden_size", "64")), Contains("whole number"));
  CHECK_THAT(refusal(json::array()), Contains("not a JSON object"));
}

TEST_CASE("params.json: the feed-forward's size is Meta's formula", "[huggingface]") {
  const json params = {{"dim", 4096},
                       {"n_layers", 32},
                       {"n_heads", 32},
                       {"n_kv_heads", 8},
                       {"vocab_size", -1},
                       {"ffn_dim_multiplier", 1.3},
                       {"multiple_of", 1024},
                       {"norm_eps", 1e-05},
                       {"rope_theta", 500000.0},
                       {"use_scaled_rope", true}};
  ModelConfig expected = preset("8B");
  expected.flavor = "custom";
  CHECK(parse_params_json(params.dump(), "params.json", 128256).model == expected);
  CHECK_THROWS_WITH(parse_params_json(params.dump(), "params.json", std::nullopt), Contains("vocab_size"));
}

TEST_CASE("an exported config.json reads as the model it was", "[huggingface]") {
  for (const char* flavor : {"1B", "8B", "debugmodel"}) {
    ModelConfig model = preset(flavor);
    model.flavor = "custom";
    const ForeignConfig again = parse_config_json(
        config_json(model, {.dtype = "float32", .max_positions = 4096, .bos = 1, .eos = {}}), "config.json");
    CHECK(again.model == model);
    CHECK(again.max_positions == 4096);
  }
}

TEST_CASE("a recipe can say every model that is read", "[huggingface]") {
  Recipe recipe;
  const ModelConfig model = read(with(with(llama(), "rope_scaling", kLlama3), "tie_word_embeddings", true));
  set_model(recipe, model);
  CHECK(model_config(parse_recipe(to_toml(recipe), "recipe")) == model);
}

TEST_CASE("an index names files of its folder only", "[huggingface]") {
  const auto index = [](const char* file) {
    return parse_weight_index(json{{"weight_map", {{"a", file}}}}.dump(), "index.json");
  };
  CHECK(index("model-1.safetensors").at("a") == "model-1.safetensors");
  CHECK_THROWS_WITH(index("../secret"), Contains("same folder"));
  CHECK_THROWS_WITH(index("/etc/passwd"), Contains("same folder"));
  CHECK_THROWS_WITH(parse_weight_index("{}", "index.json"), Contains("weight_map"));
}
