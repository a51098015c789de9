#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <string>
#include <vector>

#include "engine/recipe/keys.h"
#include "engine/recipe/recipe.h"
#include "engine/recipe/spelling.h"
#include "tests/support/temp_dir.h"

namespace titan {
namespace {

using Strings = std::vector<std::string>;

Recipe parse(const std::string& text, const Strings& overrides = {}) {
  return parse_recipe(text, "r.toml", overrides);
}

// A recipe as TorchTitan's users write them: comments, literal strings, no spaces, nested sections.
constexpr auto kLarge = R"(
# for many GPUs
[job]
dump_folder = "./out"
description = "large"

[model]
name = "llama3"
flavor = "405B"
hf_assets_path = "./assets"
converters = ["float8"]

[optimizer]
name = "AdamW"
lr = 8e-5
eps = 1e-8

[lr_scheduler]
warmup_steps = 600  # of 3000

[training]
local_batch_size = 2
seq_len = 8192
max_norm = 1  # an integer is a number
steps = 3_000
dataset = "c4"

[parallelism]
data_parallel_shard_degree = -1
tensor_parallel_degree = 8
enable_async_tensor_parallel = true
pipeline_parallel_schedule = "Interleaved1F1B"

[activation_checkpoint]
mode = "selective"
selective_ac_option = 'op'

[compile]
enable=true
components = ["model", "loss"]

[quantize.linear.float8]
enable_fsdp_float8_all_gather = true
filter_fqns = ["output"]
)";

TEST_CASE("a recipe is read section by section, and the rest keeps its defaults") {
  const Recipe recipe = parse(kLarge);
  CHECK(recipe.job.dump_folder == "./out");
  CHECK(recipe.model.flavor == "405B");
  CHECK(recipe.model.converters == Strings{"float8"});
  CHECK(recipe.optimizer.lr == 8e-5);
  CHECK(recipe.lr_scheduler.warmup_steps == 600);
  CHECK_FALSE(recipe.lr_scheduler.decay_ratio.has_value());
  CHECK(recipe.training.max_norm == 1.0);
  CHECK(recipe.training.steps == 3000);
  CHECK(recipe.parallelism.tensor_parallel_degree == 8);
  CHECK(recipe.activation_checkpoint.selective_ac_option == "op");
  CHECK(recipe.compile.enable);
  CHECK(recipe.quantize.linear.float8.enable_fsdp_float8_all_gather);
  CHECK(recipe.quantize.linear.float8.filter_fqns == Strings{"output"});
  CHECK(recipe.checkpoint.keep_latest_k == 10);
}

TEST_CASE("an empty recipe has TorchTitan's defaults") {
  const Recipe recipe = parse("");
  CHECK(differences(recipe, Recipe()).empty());
  CHECK(recipe.training.seq_len == 2048);
  CHECK(recipe.training.steps == 10000);
  CHECK(recipe.optimizer.lr == 8e-4);
  CHECK(recipe.activation_checkpoint.mode == "selective");
  CHECK(recipe.job.dump_folder == "./outputs");
}

TEST_CASE("overrides win over the file, and the last one over the others") {
  const Recipe recipe = parse("[training]\nsteps = 5", {"--training.steps=6", "--training.steps=7"});
  CHECK(recipe.training.steps == 7);
}

TEST_CASE("overrides have one syntax for every type") {
  CHECK(parse("", {"--training.steps=1_000"}).training.steps == 1000);
  CHECK(parse("", {"--optimizer.lr=3e-4"}).optimizer.lr == 3e-4);
  CHECK(parse("", {"--optimizer.lr=1"}).optimizer.lr == 1.0);
  CHECK(parse("", {"--checkpoint.enable"}).checkpoint.enable);
  CHECK(parse("", {"--checkpoint.enable=true"}).checkpoint.enable);
  CHECK_FALSE(parse("[checkpoint]\nenable = true", {"--checkpoint.enable=false"}).checkpoint.enable);
  CHECK(parse("", {"--model.flavor=8B"}).model.flavor == "8B");
  CHECK(parse("", {"--model.flavor=\"8B\""}).model.flavor == "8B");
  CHECK(parse("", {"--job.description=a = \"b\" \\ c"}).job.description == "a = \"b\" \\ c");
  CHECK(parse("", {"--job.description=[a]"}).job.description == "[a]");
  CHECK(parse("", {"--optimizer.no_decay=norm, bias"}).optimizer.no_decay == Strings{"norm", "bias"});
  CHECK(parse("", {"--optimizer.no_decay=[\"a,b\", 'c']"}).optimizer.no_decay == Strings{"a,b", "c"});
  CHECK(parse("", {"--compile.components="}).compile.components.empty());
  CHECK(parse("", {"--model.tie_embeddings"}).model.tie_embeddings == true);
  CHECK(parse("", {"--debug.seed=3"}).debug.seed == 3);
  CHECK_FALSE(parse("[debug]\nseed = 3", {"--debug.seed=none"}).debug.seed.has_value());
  CHECK(parse("", {"--activation_checkpoint.selective_ac_option=3"})
            .activation_checkpoint.selective_ac_option == "3");
  const auto parts = parse("", {"--parallelism.module_fqns_per_model_part=[[\"a\"], [\"b\", \"c\"]]"});
  CHECK(parts.parallelism.module_fqns_per_model_part == std::vector<Strings>{{"a"}, {"b", "c"}});
}

TEST_CASE("paths may be one string, a list in a string, or a list") {
  CHECK(parse("[training]\ndataset_path = \"a.txt\"").training.dataset_path == Strings{"a.txt"});
  CHECK(parse("[training]\ndataset_path = \"a.txt, b\"").training.dataset_path == Strings{"a.txt", "b"});
  CHECK(parse("[training]\ndataset_path = [\"a.txt\", \"b\"]").training.dataset_path ==
        Strings{"a.txt", "b"});
}

TEST_CASE("names of other TorchTitan versions are understood") {
  CHECK(parse("[training]\nseed = 3\nbatch_size = 4").debug.seed == 3);
  CHECK(parse("[training]\nbatch_size = 4").training.local_batch_size == 4);
  CHECK(parse("[float8]\nemulate = true").quantize.linear.float8.emulate);
  CHECK(parse("[profiler]\nprofile_freq = 7").profiling.profile_freq == 7);
  CHECK(parse("", {"--training.seed=3"}).debug.seed == 3);
  CHECK(parse("", {"--profiler.profile_freq=7"}).profiling.profile_freq == 7);
  CHECK(parse("[experimental]\ncontext_parallel_degree = 2").parallelism.context_parallel_degree == 2);
}

TEST_CASE("dotted keys and inline tables are the same recipe") {
  CHECK(parse("training.steps = 4\nquantize.linear.float8 = { emulate = true }").training.steps == 4);
  CHECK(parse("quantize = { linear = { float8 = { emulate = true } } }").quantize.linear.float8.emulate);
}

TEST_CASE("load_recipe reads a file, an empty one too") {
  const test::TempDir folder;
  std::ofstream(folder / "r.toml") << "[training]\nsteps = 12\n";
  std::ofstream(folder / "empty.toml");
  const Strings overrides = {"--training.seq_len=64"};
  CHECK(load_recipe(folder / "r.toml", overrides).training.steps == 12);
  CHECK(load_recipe(folder / "r.toml", overrides).training.seq_len == 64);
  CHECK(load_recipe(folder / "empty.toml").training.steps == 10000);
}

TEST_CASE(
    "the table: paths are unique, sections are contiguous, defaults are in range, old names lead to keys") {
  Strings sections;
  for (const Key& key : keys()) {
    CAPTURE(key.path);
    CHECK(find_key(key.path) == &key);
    CHECK(contains(key.domain, default_value(key)));
    CHECK_FALSE(key.doc.empty());
    CHECK(key.support.reason.empty() == (key.support.kind == Support::works));
    CHECK_FALSE(is_section(key.path));
    if (sections.empty() || sections.back() != key.section()) sections.emplace_back(key.section());
  }
  std::sort(sections.begin(), sections.end());
  CHECK(std::adjacent_find(sections.begin(), sections.end()) == sections.end());
  for (const std::string_view old_name :
       {"training.seed", "model.tokenizer_path", "checkpoint.enable_checkpoint"})
    CHECK(find_key(current_name(old_name)) != nullptr);
  CHECK(is_section(current_name("float8")));
}

TEST_CASE("nearest finds what was meant and nothing far") {
  const std::vector<std::string_view> names = {"steps", "seq_len", "max_norm"};
  CHECK(nearest("step", names) == "steps");
  CHECK(nearest("sqe_len", names) == "seq_len");
  CHECK(nearest("maximum", names).empty());
  CHECK(nearest("", names).empty());
}

}  // namespace
}  // namespace titan
