// Every way a recipe can be wrong: the message names the place, the value and what was expected.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "engine/recipe/recipe.h"
#include "kernels/base/error.h"
#include "tests/support/temp_dir.h"

namespace titan {
namespace {

using Strings = std::vector<std::string>;

std::string error_of(const std::string& text, const Strings& overrides = {}) {
  try {
    parse_recipe(text, "r.toml", overrides);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "no error";
}

struct BadFile {
  std::string text;
  std::string start;  // the message starts with it: the place and what is wrong
  Strings words;      // and contains these
};

const BadFile kBadFiles[] = {
    // syntax
    {"[training\nsteps = 1", "r.toml:1:10: invalid TOML", {}},
    {"[training]\nsteps 5", "r.toml:2:7: invalid TOML", {}},
    {"[training]\nsteps =", "r.toml:2:8: invalid TOML", {}},
    {"[training]\nsteps = 5\nsteps = 6", "r.toml:3:", {"invalid TOML", "steps"}},
    {"[training]\n[model]\n[training]", "r.toml:3:", {"invalid TOML", "training"}},
    {"[model]\nflavor = 8B", "r.toml:2:11: invalid TOML", {}},
    {"[model]\nflavor = \"8B", "r.toml:2:", {"invalid TOML"}},
    {"[compile]\nenable = True", "r.toml:2:10: invalid TOML", {}},
    {"[job]\ndescription = \"\xff\"", "r.toml:2:15: invalid TOML", {}},
    {"caf\u00e9 = 5",
     "r.toml:1:4: invalid TOML",
     {}},  // letters in each part of toml++'s table of white space
    {"\u0493 = 5", "r.toml:1:1: invalid TOML", {}},
    {"steps = \u00a1", "r.toml:1:9: invalid TOML", {}},
    {"steps = 5 \u2190", "r.toml:1:11: invalid TOML", {}},
    {"steps\u00a0= 5", "r.toml:1:6: invalid TOML", {}},  // which are white space, though not TOML's
    {"steps = \u30005", "r.toml:1:9: invalid TOML", {}},
    // unknown names
    {"[trainning]\nsteps = 5", "r.toml:1:2: unknown section [trainning]; did you mean [training]?", {}},
    {"[quantize.linear.float9]\nemulate = true",
     "r.toml:1:18: unknown section [quantize.linear.float9]; did you mean [quantize.linear.float8]?",
     {}},
    {"[astronomy]", "r.toml:1:2: unknown section [astronomy]", {"titan train --help"}},
    {"[training]\nseq_length = 5",
     "r.toml:2:1: unknown key training.seq_length; did you mean training.seq_len?",
     {}},
    {"[optimizer]\nlr = 1e-3\n  learning_rate = 1",
     "r.toml:3:3: unknown key optimizer.learning_rate",
     {"--help"}},
    {"[optimizer]\ndecay_ratio = 0.1",
     "r.toml:2:1: unknown key optimizer.decay_ratio; did you mean lr_scheduler.decay_ratio?",
     {}},
    {"[valdation]\nenable = true", "r.toml:1:2: unknown section [valdation]; did you mean [validation]?", {}},
    {"steps = 5", "r.toml:1:1: unknown key steps; did you mean training.steps?", {}},
    {"training.Steps = 5", "r.toml:1:10: unknown key training.Steps; did you mean training.steps?", {}},
    // types
    {"training = 3", "r.toml:1:12: training = 3: expected a section, [training]", {}},
    {"[training]\ndataloader = 3", "r.toml:2:14: training.dataloader = 3: expected a section", {}},
    {"[[training]]\nsteps = 3", "r.toml:1:", {"training", "expected a section"}},
    {"[training.steps]\nx = 3", "r.toml:1:1: training.steps = a section: expected an integer >= 1", {}},
    {"[training]\nsteps = \"ten\"", "r.toml:2:9: training.steps = \"ten\": expected an integer >= 1", {}},
    {"[training]\nsteps = 10.5", "r.toml:2:9: training.steps = 10.5: expected an integer >= 1", {}},
    {"[training]\nsteps = 2020-01-01", "r.toml:2:9: training.steps = 2020-01-01: expected an integer", {}},
    {"[optimizer]\nlr = \"8e-4\"", "r.toml:2:6: optimizer.lr = \"8e-4\": expected a number >= 0", {}},
    {"[checkpoint]\nenable = 1", "r.toml:2:10: checkpoint.enable = 1: expected a boolean", {}},
    {"[model]\nflavor = 8", "r.toml:2:10: model.flavor = 8: expected a non-empty string", {}},
    {"[activation_checkpoint]\nselective_ac_option = 2",
     "r.toml:2:23: activation_checkpoint.selective_ac_option = 2: expected a string",
     {}},
    {"[optimizer]\nno_decay = [1]",
     "r.toml:2:12: optimizer.no_decay = [ 1 ]: expected a list of strings",
     {}},
    {"[parallelism]\nmodule_fqns_per_model_part = [\"a\"]",
     "r.toml:2:30: parallelism.module_fqns_per_model_part",
     {"expected a list of lists of strings"}},
    {"[debug]\nseed = \"x\"", "r.toml:2:8: debug.seed = \"x\": expected an integer >= 0", {}},
    {"[training]\nsteps = 99999999999999999999", "r.toml:2:", {"invalid TOML"}},
    // ranges
    {"[training]\nseq_len = 0", "r.toml:2:11: training.seq_len = 0: expected an integer >= 1", {}},
    {"[training]\n\n   steps = -5", "r.toml:3:12: training.steps = -5: expected an integer >= 1", {}},
    {"[training]\nlocal_batch_size = 0", "r.toml:2:20: training.local_batch_size = 0", {">= 1"}},
    {"[training]\nglobal_batch_size = 0", "r.toml:2:21: training.global_batch_size = 0", {">= 1 or -1"}},
    {"[training]\nmax_norm = 0", "r.toml:2:12: training.max_norm = 0.0: expected a number > 0", {}},
    {"[optimizer]\nlr = -1e-3", "r.toml:2:6: optimizer.lr = -0.001: expected a number >= 0", {}},
    {"[optimizer]\nlr = nan", "r.toml:2:6: optimizer.lr = nan: expected a number >= 0", {}},
    {"[optimizer]\nlr = inf", "r.toml:2:6: optimizer.lr = inf: expected a number >= 0", {}},
    {"[optimizer]\nbeta1 = 1.0", "r.toml:2:9: optimizer.beta1 = 1.0: expected a number in [0, 1)", {}},
    {"[lr_scheduler]\ndecay_ratio = 1.5", "r.toml:2:15: lr_scheduler.decay_ratio = 1.5", {"in [0, 1]"}},
    {"[lr_scheduler]\nwarmup_steps = -1", "r.toml:2:16: lr_scheduler.warmup_steps = -1", {">= 0"}},
    {"[lr_scheduler]\ntotal_steps = 0", "r.toml:2:15: lr_scheduler.total_steps = 0", {">= 1"}},
    {"[checkpoint]\nkeep_latest_k = 1", "r.toml:2:17: checkpoint.keep_latest_k = 1", {">= 2 or 0"}},
    {"[checkpoint]\ninterval = 0", "r.toml:2:12: checkpoint.interval = 0", {">= 1"}},
    {"[checkpoint]\nload_step = -2", "r.toml:2:13: checkpoint.load_step = -2", {">= 0 or -1"}},
    {"[validation]\nsplit = 1.0", "r.toml:2:9: validation.split = 1.0: expected a number in [0, 1)", {}},
    {"[parallelism]\ndata_parallel_shard_degree = 0",
     "r.toml:2:30: parallelism.data_parallel_shard_degree = 0: expected an integer >= 1 or -1",
     {}},
    {"[activation_checkpoint]\nmemory_budget = -0.1",
     "r.toml:2:17: activation_checkpoint.memory_budget = -0.1",
     {}},
    {"[model]\nn_layers = 0", "r.toml:2:12: model.n_layers = 0: expected an integer >= 1", {}},
    {"[job]\ndump_folder = \"\"", "r.toml:2:15: job.dump_folder = \"\": expected a non-empty string", {}},
    {"[debug]\nthreads = -1", "r.toml:2:11: debug.threads = -1: expected an integer >= 0", {}},
    // choices
    {"[model]\nname = \"llama4\"", "r.toml:2:8: model.name = \"llama4\": expected one of \"llama3\"", {}},
    {"[optimizer]\nname = \"sgd\"", "r.toml:2:8: optimizer.name = \"sgd\"", {"one of \"AdamW\", \"Adam\""}},
    {"[lr_scheduler]\ndecay_type = \"exp\"",
     "r.toml:2:14: lr_scheduler.decay_type",
     {"\"sqrt\"", "\"cosine\""}},
    {"[activation_checkpoint]\nmode = \"some\"",
     "r.toml:2:8: activation_checkpoint.mode",
     {"\"memory_budget\""}},
    {"[training]\nmixed_precision_param = \"float16\"", "r.toml:2:25: ", {"\"bfloat16\", \"float32\""}},
    {"[checkpoint]\nexclude_from_loading = [\"model\"]", "r.toml:2:24: ", {"a list of \"optimizer\", "}},
    {"[parallelism]\npipeline_parallel_schedule = \"2F2B\"", "r.toml:2:30: ", {"\"Interleaved1F1B\""}},
    {"[quantize.linear.float8]\nrecipe_name = \"colwise\"", "r.toml:2:15: ", {"\"rowwise_with_gw_hp\""}},
    // relations between keys
    {"[training]\nlocal_batch_size = 3\nglobal_batch_size = 8",
     "r.toml:3:21: training.global_batch_size = 8: expected a multiple of training.local_batch_size = 3",
     {}},
    {"[model]\nflavor = \"custom\"\ndim = 64", "r.toml:2:10: model.flavor = \"custom\"", {"model.n_layers"}},
    {"[activation_checkpoint]\nselective_ac_option = \"0\"",
     "r.toml:2:23: ",
     {"\"op\" or a positive integer"}},
    {"[activation_checkpoint]\nselective_ac_option = \"\"",
     "r.toml:2:23: ",
     {"\"op\" or a positive integer"}},
    {"[profiling]\nenable_profiling = true\nprofile_freq = 3", "r.toml:3:16: ", {"profiler_warmup", "3 + 1"}},
    {"[profiling]\nenable_profiling = true\nprofiler_warmup = 20",
     "r.toml: profiling.profile_freq = 10",
     {"20 + 1"}},
    {"[checkpoint]\nlast_save_in_hf = true\nlast_save_model_only = false",
     "r.toml:2:19: ",
     {"last_save_model_only"}},
    {"[quantize.linear.float8]\nenable_fsdp_float8_all_gather = true\nrecipe_name = \"rowwise\"",
     "r.toml:2:33: ",
     {"tensorwise"}},
    {"[quantize.linear.float8]\nprecompute_float8_dynamic_scale_for_fsdp = true",
     "r.toml:2:44: ",
     {"enable_fsdp_float8_all_gather"}},
    // a key under two names
    {"[training]\nseed = 1\n[debug]\nseed = 2", "r.toml:", {"debug.seed is set twice: also at r.toml:"}},
};

struct BadOverride {
  std::string override;
  std::string start;
  Strings words;
};

const BadOverride kBadOverrides[] = {
    {"training.steps=5", "command line: training.steps=5: expected --section.key=value", {}},
    {"--steps=5", "command line: --steps=5: expected --section.key=value", {}},
    {"--model=a.b", "command line: --model=a.b: expected --section.key=value", {}},
    {"--training.step=5", "command line: unknown key training.step; did you mean training.steps?", {}},
    {"--valdation.enable", "command line: unknown key valdation.enable; did you mean validation.enable?", {}},
    {"--training.dataloader=5", "command line: unknown key training.dataloader", {}},
    {"--training.local-batch-size=5",
     "command line: unknown key",
     {"did you mean training.local_batch_size?"}},
    {"--training.steps", "command line: --training.steps: needs a value", {"an integer >= 1"}},
    {"--training.steps=", "command line: training.steps = : expected an integer >= 1", {}},
    {"--training.steps=abc", "command line: training.steps = abc: expected an integer >= 1", {}},
    {"--training.steps=1e3", "command line: training.steps = 1e3: expected an integer >= 1", {}},
    {"--training.steps=none", "command line: training.steps = none: expected an integer >= 1", {}},
    {"--training.steps=5\nseq_len = 3", "command line: training.steps = 5", {"expected an integer"}},
    {"--training.steps=0", "command line: training.steps = 0: expected an integer >= 1", {}},
    {"--metrics.enable_tensorboard=yes",
     "command line: metrics.enable_tensorboard = yes: expected a boolean",
     {}},
    {"--optimizer.lr=fast", "command line: optimizer.lr = fast: expected a number >= 0", {}},
    {"--optimizer.no_decay=[1, 2]",
     "command line: optimizer.no_decay = [1, 2]: expected a list of strings",
     {}},
    {"--optimizer.no_decay=[\"a\"",
     "command line: optimizer.no_decay = [\"a\": expected a list of strings",
     {}},
    {"--compile.components=model,all", "command line: compile.components", {"a list of \"model\", \"loss\""}},
    {"--job.description=\xff", "command line: job.description", {"expected a string"}},
    {"--activation_checkpoint.mode=all",
     "command line: activation_checkpoint.mode = \"all\"",
     {"\"selective\""}},
};

void check_message(const std::string& message, const std::string& start, const Strings& words) {
  CAPTURE(message, start);
  CHECK(message.substr(0, start.size()) == start);
  for (const std::string& word : words) CHECK_THAT(message, Catch::Contains(word));
}

TEST_CASE("a wrong recipe file names the place, the value and what was expected") {
  for (const BadFile& bad : kBadFiles) check_message(error_of(bad.text), bad.start, bad.words);
}

TEST_CASE("a wrong override names the command line, the value and what was expected") {
  for (const BadOverride& bad : kBadOverrides)
    check_message(error_of("", {bad.override}), bad.start, bad.words);
}

TEST_CASE("all errors of a recipe come in one message, in the order of the file, overrides last") {
  const std::string message = error_of(
      "[training]\nsteps = 0\nseq_len = \"long\"\n[optimizer]\nlrr = 1\n[activation_checkpoint]\nmode = "
      "\"some\"",
      {"--validation.freq=0", "--debug.sed=1"});
  CHECK(message ==
        "6 errors in the recipe:\n"
        "  r.toml:2:9: training.steps = 0: expected an integer >= 1\n"
        "  r.toml:3:11: training.seq_len = \"long\": expected an integer >= 1\n"
        "  r.toml:5:1: unknown key optimizer.lrr; did you mean optimizer.lr?\n"
        "  r.toml:7:8: activation_checkpoint.mode = \"some\": expected one of \"selective\", \"full\", "
        "\"memory_budget\", \"none\"\n"
        "  command line: validation.freq = 0: expected an integer >= 1\n"
        "  command line: unknown key debug.sed; did you mean debug.seed?");
}

TEST_CASE("a value out of range in the file is no error once it is overridden") {
  const Strings overrides = {"--training.steps=5"};
  CHECK(parse_recipe("[training]\nsteps = 0", "r.toml", overrides).training.steps == 5);
}

TEST_CASE("a recipe that cannot be read is a usage error") {
  const test::TempDir folder;
  CHECK_THROWS_WITH(load_recipe(folder / "none.toml"), Catch::Contains("none.toml: cannot read the recipe"));
  CHECK_THROWS_WITH(load_recipe(folder.path()), Catch::Contains("a folder, not a recipe"));
  CHECK_THROWS_AS(load_recipe(folder.path()), UsageError);
}

}  // namespace
}  // namespace titan
