#include "engine/model/config.h"

#include <catch2/catch.hpp>

#include "engine/recipe/recipe.h"
#include "kernels/base/error.h"

using namespace titan;

TEST_CASE("presets have TorchTitan's sizes") {
  const auto [flavor, total, ffn] = GENERATE(table<std::string, std::int64_t, std::int64_t>({
      {"debugmodel", 6'163'712, 768},
      {"1B", 1'235'814'400, 8192},
      {"3B", 3'212'749'824, 8192},
      {"8B", 8'030'261'248, 14336},
      {"70B", 70'553'706'496, 28672},
      {"405B", 405'853'388'800, 53248},
  }));
  INFO(flavor);
  const ModelConfig c = preset(flavor);
  CHECK(parameter_count(c) == total);
  CHECK(c.ffn_dim == ffn);
}

TEST_CASE("the FLOPs formula leaves out an input embedding of its own") {
  CHECK(parameter_count(preset("8B")) - embedding_parameter_count(preset("8B")) == 7'504'924'672);
  CHECK(embedding_parameter_count(preset("1B")) == 0);
}

TEST_CASE("a recipe overrides its flavor") {
  const Recipe r = parse_recipe("[model]\nflavor = \"8B\"\nn_layers = 2\nvocab_size = 512\n", "r.toml");
  const ModelConfig c = model_config(r);
  CHECK(c.n_layers == 2);
  CHECK(c.vocab_size == 512);
  CHECK(c.dim == 4096);
  CHECK(c.head_dim == 128);
}

TEST_CASE("impossible shapes are usage errors that name the keys") {
  const auto [text, words] = GENERATE(table<std::string, std::string>({
      {"flavor = \"9B\"", "405B"},
      {"flavor = \"custom\"\ndim = 30\nn_layers = 1\nn_heads = 4\nvocab_size = 8\nffn_dim = 8",
       "model.dim 30"},
      {"flavor = \"custom\"\ndim = 36\nn_layers = 1\nn_heads = 4\nvocab_size = 8\nffn_dim = 8",
       "model.head_dim is 9"},
      {"n_kv_heads = 3", "model.n_kv_heads 3"},
      {"flavor = \"custom\"\ndim = 32\nn_layers = 1\nn_heads = 4", "model.vocab_size"},
  }));
  INFO(text);
  const Recipe r = parse_recipe("[model]\n" + text + "\n", "r.toml");
  try {
    model_config(r);
    FAIL("accepted");
  } catch (const UsageError& error) {
    CHECK_THAT(error.what(), Catch::Contains(words));
  }
}

TEST_CASE("a pass whose tokens or bytes cannot be counted is refused") {
  const ModelConfig c = preset("405B");
  CHECK_NOTHROW(check_pass(c, 1, 131'072));
  CHECK_NOTHROW(check_pass(c, 1'000, 8'192));
  CHECK_THROWS_AS(check_pass(c, std::int64_t{1} << 32, 1), UserError);
  CHECK_THROWS_AS(check_pass(c, std::int64_t{1} << 32, std::int64_t{1} << 32), UserError);
  CHECK_THROWS_AS(check_pass(c, 1, 2'147'483'647), UserError);
}
