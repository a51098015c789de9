#include <catch2/catch.hpp>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "engine/recipe/keys.h"
#include "engine/recipe/recipe.h"

namespace titan {
namespace {

using Strings = std::vector<std::string>;

std::string other_choice(const Key& key, const Value& value) {
  for (const std::string& choice : split(key.domain.choices, '|'))
    if (quote(choice) != to_text(value)) return choice;
  return key.domain.choices.empty() ? "other" : "";
}

// A value of the key's type that the key takes and that is not its default, as an override writes it. Empty
// when the only value is the default.
std::string other_value(const Key& key) {
  const Value value = default_value(key);
  const std::string_view type = type_name(value);
  if (key.path == "activation_checkpoint.selective_ac_option") return "op";
  if (type == "integer") return "64";
  if (type == "number") return "0.375";
  if (type == "boolean") return to_text(value) == "true" ? "false" : "true";
  if (type == "list of strings")
    return key.domain.choices.empty() ? "one,two \\ \"three\"" : other_choice(key, value);
  if (type == "list of lists of strings") return "[[\"one\"], [\"two\", \"three\"]]";
  return other_choice(key, value);
}

TEST_CASE("every key can be set by an override, is printed, and is read back unchanged") {
  // These only go together with others.
  const Strings together = {"--model.dim=64", "--quantize.linear.float8.enable_fsdp_float8_all_gather=true"};
  for (const Key& key : keys()) {
    CAPTURE(key.path);
    const std::string value = other_value(key);
    if (value.empty()) {
      CHECK(split(key.domain.choices, '|').size() == 1);
      continue;
    }
    Strings overrides = together;
    if (key.path == "quantize.linear.float8.recipe_name") overrides.pop_back();
    if (key.path == "training.global_batch_size") overrides.push_back("--training.local_batch_size=8");
    overrides.push_back("--" + std::string(key.path) + "=" + value);
    const Recipe changed = parse_recipe("", "r.toml", overrides);
    const bool is_together = key.path == "quantize.linear.float8.enable_fsdp_float8_all_gather";
    if (!is_together) CHECK(key.get(changed) != default_value(key));
    CHECK(differences(parse_recipe(to_toml(changed), "printed"), changed).empty());
  }
}

TEST_CASE("text and numbers survive the round trip") {
  Recipe recipe;
  recipe.job.description = "tab\t newline\n quote\" backslash\\ bell\a delete\x7f é 🙂";
  recipe.optimizer.no_decay = {"a,b", "", "# no comment"};
  for (const double lr : {1.0, 1e-300, 0.1, 1.0 / 3.0, 5e22, 123456789.0, 1e15}) {
    recipe.optimizer.lr = lr;
    const Recipe read = parse_recipe(to_toml(recipe), "printed");
    CHECK(read.optimizer.lr == lr);
    CHECK(read.job.description == recipe.job.description);
    CHECK(read.optimizer.no_decay == recipe.optimizer.no_decay);
  }
}

TEST_CASE("to_toml prints sections and leaves absent optionals out") {
  const std::string text = to_toml(Recipe());
  CHECK_THAT(text, Catch::StartsWith("[job]\ndump_folder = \"./outputs\"\n"));
  CHECK_THAT(text, Catch::Contains("\n\n[training.dataloader]\nnum_workers = 0\n"));
  CHECK_THAT(text, Catch::Contains("\nmax_norm = 1.0\n"));
  CHECK_THAT(text, !Catch::Contains("none") && !Catch::Contains("\nseed"));
}

TEST_CASE("differences name the key and both values") {
  Recipe changed;
  changed.optimizer.lr = 1e-3;
  changed.debug.seed = 4;
  const std::vector<Difference> found = differences(Recipe(), changed);
  REQUIRE(found.size() == 2);
  CHECK(found[0].key == "optimizer.lr");
  CHECK(found[0].old_value == "0.0008");
  CHECK(found[0].new_value == "0.001");
  CHECK(found[1].key == "debug.seed");
  CHECK(found[1].old_value == "none");
  CHECK(found[1].new_value == "4");
}

TEST_CASE("help and documentation have every key with its default and meaning") {
  const std::string help = help_text();
  const std::string table = markdown_table();
  for (const Key& key : keys()) {
    CAPTURE(key.path);
    CHECK_THAT(help, Catch::Contains("\n  --" + std::string(key.path) + " "));
    CHECK_THAT(help, Catch::Contains(std::string(key.doc)));
    CHECK_THAT(help, Catch::Contains("[" + std::string(key.section()) + "]\n"));
    CHECK_THAT(table, Catch::Contains("\n| `" + std::string(key.name()) + "` |"));
    CHECK_THAT(table, Catch::Contains("### [" + std::string(key.section()) + "]\n"));
  }
  CHECK_THAT(table,
             Catch::Contains("| `mode` | string | `\"selective\"` | which activations the backward computes "
                             "again (selective \\| full \\| memory_budget \\| none) | works |"));
  CHECK_THAT(help, Catch::Contains("tokens in a sequence (>= 1)\n"));
}

}  // namespace
}  // namespace titan
