// Training from the outside: resume, signals, memory, dry runs, refusals.
#include <sys/resource.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <cmath>
#include <csignal>
#include <fstream>

#include "tests/app/titan/run_titan.h"
#include "tests/support/temp_dir.h"

using namespace titan::test;
using Catch::Contains;

namespace {

std::vector<std::string> with(std::vector<std::string> arguments, const std::vector<std::string>& more) {
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

}  // namespace

TEST_CASE("a run trains, validates, saves, and its loss falls") {
  const TempDir folder;
  const Run run = run_titan(small_run(folder.path(), {"--training.steps=40"}));
  INFO(run.err);
  REQUIRE(run.exit == 0);
  const auto by_step = losses(folder.path());
  REQUIRE(by_step.size() == 40);
  CHECK(by_step.at(1) == Approx(std::log(258.0) + 0.5).margin(0.5));
  CHECK(by_step.at(40) < by_step.at(1) - 1);
  CHECK_THAT(run.err, Contains("step:  1  loss: ") && Contains("validate step:  6  loss: ") &&
                          Contains("Weights: initialized from seed 0"));
  CHECK_THAT(run.err, Contains("Training completed"));
  CHECK(run.out.empty());
}

TEST_CASE("a traced step shows every node, and the memory that was planned") {
  const TempDir folder;
  const auto recipe =
      small_run(folder.path(), {"--training.steps=8", "--profiling.enable_profiling",
                                "--profiling.profile_freq=4", "--profiling.profiler_active=2",
                                "--profiling.profiler_warmup=1", "--validation.enable=false"});
  const Run run = run_titan(recipe);
  INFO(run.err);
  REQUIRE(run.exit == 0);
  CHECK_THAT(run.err, Contains("where its time went") && Contains("gemm"));
  std::vector<std::string> plan = recipe;
  plan[0] = "plan";
  plan.emplace_back("--json");
  plan.emplace_back("--trace=" + (folder / "predicted.json").string());
  const Run planned = run_titan(plan);
  REQUIRE(planned.exit == 0);
  const auto program = nlohmann::json::parse(planned.out)["programs"]["train"];
  std::vector<std::filesystem::path> traces{folder / "predicted.json"};
  for (const int step : {3, 4, 7, 8})
    traces.push_back(folder / "out" / "profile_traces" / ("iteration_" + std::to_string(step)) /
                     "rank0_trace.json");
  for (const auto& path : traces) {
    INFO(path);
    std::ifstream file(path);
    REQUIRE(file);
    std::int64_t slices = 0, most = 0;
    double last_end = 0;
    const auto trace = nlohmann::json::parse(file);
    for (const auto& event : trace["traceEvents"]) {
      if (event["ph"] == "C") most = std::max(most, event["args"]["transient"].get<std::int64_t>());
      if (event["ph"] != "X") continue;
      ++slices;
      CHECK(event["ts"].get<double>() >= last_end - 2e-3);  // one lane: one after another
      last_end = event["ts"].get<double>() + event["dur"].get<double>();
    }
    CHECK(slices == program["nodes"]);
    CHECK(most == program["largest_live_set_bytes"]);
  }
  CHECK(!std::filesystem::exists(folder / "out" / "profile_traces" / "iteration_5"));
}

TEST_CASE("a resumed run is the uninterrupted run, bit for bit") {
  const TempDir whole, parts;
  REQUIRE(run_titan(small_run(whole.path())).exit == 0);
  // The schedule's horizon is the whole run's, wherever a part of it stops.
  const std::vector<std::string> horizon{"--lr_scheduler.total_steps=12"};
  REQUIRE(run_titan(small_run(parts.path(), with(horizon, {"--training.steps=7"}))).exit == 0);
  const Run resumed = run_titan(small_run(parts.path(), horizon));
  INFO(resumed.err);
  REQUIRE(resumed.exit == 0);
  CHECK_THAT(resumed.err, Contains("(step 7)") && Contains("Training starts at step 8"));
  CHECK_THAT(resumed.err, Contains("training.steps was 7, is 12"));
  const auto a = losses(whole.path()), b = losses(parts.path());
  REQUIRE(a.size() == 12);
  CHECK(a == b);
}

TEST_CASE("a run of a mixture resumes bit for bit, and tells a changed one") {
  const auto mixed = [](const TempDir& folder, const std::string& weights,
                        const std::vector<std::string>& overrides) {
    std::ofstream(folder / "other.txt") << std::string(9000, 'x') << "\n";
    const std::string text = (folder / "text.txt").string(), other = (folder / "other.txt").string();
    const std::string mix = weights.empty() ? text : text + "=" + weights + "," + other + "=0.25";
    return small_run(folder.path(),
                     with(overrides, {"--training.dataset_path=[]", "--training.dataset_mix=" + mix}));
  };
  const TempDir whole, parts;
  const Run uninterrupted = run_titan(mixed(whole, "0.75", {}));
  INFO(uninterrupted.err);
  REQUIRE(uninterrupted.exit == 0);
  CHECK_THAT(uninterrupted.err, Contains("other.txt, weight 1: ") && Contains("text.txt, weight 3: "));
  const std::vector<std::string> horizon{"--lr_scheduler.total_steps=12"};
  REQUIRE(run_titan(mixed(parts, "0.75", with(horizon, {"--training.steps=7"}))).exit == 0);
  REQUIRE(run_titan(mixed(parts, "0.75", horizon)).exit == 0);
  CHECK(losses(parts.path()) == losses(whole.path()));

  const Run changed = run_titan(mixed(parts, "1.25", {"--training.steps=13"}));
  INFO(changed.err);
  CHECK(changed.exit == 0);
  CHECK_THAT(changed.err, Contains("training.dataset_mix was") && Contains("is not the checkpoint's"));

  std::vector<std::string> samples = mixed(whole, "0.75", {"--first=0", "--count=8"});
  samples[0] = "samples";
  samples.insert(samples.begin(), "data");
  const Run shown = run_titan(samples);
  INFO(shown.err);
  REQUIRE(shown.exit == 0);
  std::size_t from_other = 0;
  for (std::size_t at = 0; (at = shown.out.find("other.txt=0.25", at)) != std::string::npos; ++at)
    ++from_other;
  CHECK(from_other == 2);

  CHECK_THAT(run_titan(mixed(whole, "", {})).err, Contains("is not PATH=WEIGHT"));
  CHECK_THAT(run_titan(mixed(whole, "0", {})).err, Contains("training.dataset_mix: the weight \"0\""));
  CHECK_THAT(run_titan(small_run(whole.path(), {"--training.dataset_mix=a=1"})).err, Contains("both set"));
}

TEST_CASE("Float8 trains, resumes to the same bits, and says what it quantizes") {
  const TempDir plain, whole, parts;
  const std::vector<std::string> float8{"--model.converters=float8",
                                        "--quantize.linear.float8.filter_fqns=layers.1.attention.wo"};
  REQUIRE(run_titan(small_run(plain.path())).exit == 0);
  const Run run = run_titan(small_run(whole.path(), float8));
  INFO(run.err);
  REQUIRE(run.exit == 0);
  CHECK_THAT(run.err, Contains("Float8 training, tensorwise") &&
                          Contains("layers 0-1 self_attn.q_proj|k_proj|v_proj: float8") &&
                          Contains("layers 1 self_attn.o_proj: bfloat16, filter_fqns has") &&
                          Contains("lm_head: bfloat16, 258 x 32 is not divisible by 16"));
  CHECK(losses(whole.path()) != losses(plain.path()));
  CHECK(losses(whole.path()).at(12) == Approx(losses(plain.path()).at(12)).epsilon(0.03));

  const std::vector<std::string> long_name{"--model.converters=quantize.linear.float8", float8[1],
                                           "--lr_scheduler.total_steps=12"};
  REQUIRE(run_titan(small_run(parts.path(), with(long_name, {"--training.steps=7"}))).exit == 0);
  REQUIRE(run_titan(small_run(parts.path(), long_name)).exit == 0);
  CHECK(losses(parts.path()) == losses(whole.path()));
}

TEST_CASE("what is excluded from loading starts over") {
  const TempDir folder;
  REQUIRE(run_titan(small_run(folder.path(), {"--training.steps=6"})).exit == 0);
  const auto lr_of_step_7 = [&](const std::vector<std::string>& overrides) {
    const TempDir copy;
    std::filesystem::copy(folder / "out", copy / "out", std::filesystem::copy_options::recursive);
    const Run run = run_titan(
        small_run(copy.path(), with(overrides, {"--training.steps=7", "--lr_scheduler.total_steps=20"})));
    INFO(run.err);
    REQUIRE(run.exit == 0);
    double lr = -1;
    for (const nlohmann::json& line : metrics(copy.path()))
      if (line["kind"] == "train" && line["step"] == 7) lr = line["lr"];
    return lr;
  };
  const double first_of_warmup = 3e-3 / 2;
  CHECK(lr_of_step_7({}) != Approx(first_of_warmup));
  CHECK(lr_of_step_7({"--checkpoint.exclude_from_loading=lr_scheduler"}) == Approx(first_of_warmup));
  const Run refused = run_titan(small_run(folder.path(), {"--checkpoint.exclude_from_loading=model"}));
  CHECK(refused.exit == 2);
}

TEST_CASE("a signal saves at the next step and the run goes on from there, bit for bit") {
  const int number = GENERATE(SIGTERM, SIGUSR1);
  const TempDir whole, parts;
  const std::vector<std::string> longer{"--training.steps=400", "--checkpoint.interval=1000"};
  REQUIRE(run_titan(small_run(whole.path(), longer)).exit == 0);
  Running first(small_run(parts.path(), longer));
  REQUIRE(first.wait_for("step:  5 ", 30));
  first.signal(number);
  const Run stopped = first.wait();
  INFO(stopped.err);
  REQUIRE(stopped.exit == 3);
  CHECK_THAT(stopped.err, Contains(number == SIGTERM ? "SIGTERM received" : "SIGUSR1 received"));
  REQUIRE(run_titan(small_run(parts.path(), longer)).exit == 0);
  CHECK(losses(whole.path()) == losses(parts.path()));
}

TEST_CASE("predicted memory is used memory in every recompute mode, to the byte") {
  const std::string mode = GENERATE("none", "full", "selective", "memory_budget");
  const TempDir folder;
  const auto arguments =
      small_run(folder.path(), {"--activation_checkpoint.mode=" + mode, "--training.steps=2"});
  auto plan = arguments;
  plan[0] = "plan";
  plan.push_back("--json");
  const Run planned = run_titan(plan);
  INFO(planned.err);
  REQUIRE(planned.exit == 0);
  const std::int64_t predicted = nlohmann::json::parse(planned.out)["arena_bytes"];
  const Run run = run_titan(arguments);
  REQUIRE(run.exit == 0);
  CHECK_THAT(run.err, Contains("one arena of " + std::to_string(predicted) + " B"));
}

TEST_CASE("resident memory is the arena and little more, and stays flat", "[slow]") {
  const TempDir folder;
  Running run(small_run(folder.path(), {"--model.dim=256", "--model.ffn_dim=768", "--training.seq_len=512",
                                        "--training.local_batch_size=4", "--training.global_batch_size=4",
                                        "--validation.enable=false", "--checkpoint.enable=false",
                                        "--training.steps=520", "--activation_checkpoint.mode=none"}));
  const auto anonymous = [&] {
    std::ifstream status("/proc/" + std::to_string(run.pid()) + "/status");
    for (std::string line; std::getline(status, line);)
      if (line.starts_with("RssAnon:")) return std::stoll(line.substr(8)) * 1024;
    return -1LL;
  };
  REQUIRE(run.wait_for("step: 10 ", 120));
  const std::int64_t early = anonymous();
  REQUIRE(run.wait_for("step: 510 ", 1200));
  const std::int64_t late = anonymous();
  const Run done = run.wait();
  REQUIRE(done.exit == 0);
  const std::size_t at = done.err.find("one arena of ") + 13;
  const std::int64_t arena = std::stoll(done.err.substr(at));
  INFO("arena " << arena << ", early " << early << ", late " << late);
  CHECK(late <= arena * 11 / 10 + 100'000'000);
  CHECK(late <= early + 4'000'000);
}

TEST_CASE("a dry run checks everything and runs nothing") {
  const TempDir folder;
  const Run run = run_titan(small_run(folder.path(), {"--dry-run"}));
  INFO(run.err);
  CHECK(run.exit == 0);
  CHECK_THAT(run.out,
             Contains("dry run: all checks passed") && Contains("memory") && Contains("none to resume from"));
  CHECK(!std::filesystem::exists(folder / "out/checkpoint"));
  CHECK(!std::filesystem::exists(folder / "out/metrics.jsonl"));

  REQUIRE(run_titan(small_run(folder.path(), {"--training.steps=3"})).exit == 0);
  const Run changed = run_titan(small_run(folder.path(), {"--dry-run", "--optimizer.lr=1e-3"}));
  CHECK_THAT(changed.out,
             Contains("would resume from step 3") && Contains("optimizer.lr was 0.003, is 0.001"));
}

TEST_CASE("what cannot run is refused before anything starts, with exit code, value and fix") {
  const auto [override_, exit, words] = GENERATE(table<std::string, int, std::string>({
      {"--training.stepz=3", 2, "training.steps"},
      {"--training.steps=0", 2, "training.steps"},
      {"--model.n_kv_heads=3", 2, "n_kv_heads"},
      {"--model.vocab_size=200", 1, "model.vocab_size to at least 258"},
      {"--training.dataset_path=/nowhere.txt", 1, "/nowhere.txt"},
      {"--model.tokenizer=/nowhere.json", 1, "/nowhere.json"},
      {"--validation.seq_len=64", 1, "validation.seq_len 64"},
      {"--training.global_batch_size=3", 2, "global_batch_size"},
      {"--parallelism.tensor_parallel_degree=2", 2, "tensor_parallel_degree"},
      {"--training.local_batch_size=3", 2, "global_batch_size"},
  }));
  INFO(override_);
  const TempDir folder;
  const Run run = run_titan(small_run(folder.path(), {override_}));
  INFO(run.err);
  CHECK(run.exit == exit);
  CHECK_THAT(run.err, Contains(words));
  CHECK(!std::filesystem::exists(folder / "out/checkpoint"));
}

TEST_CASE("too little memory is said before the start, with the numbers") {
  const TempDir folder;
  const Run run = run_titan(small_run(
      folder.path(),
      {"--training.local_batch_size=30000", "--training.global_batch_size=30000", "--model.dim=4096",
       "--model.n_heads=32", "--model.n_kv_heads=8", "--model.ffn_dim=14336", "--dry-run"}));
  INFO(run.err);
  CHECK(run.exit == 1);
  CHECK_THAT(run.err, Contains("GiB of memory") && Contains("activation_checkpoint.mode"));
}

TEST_CASE("a loss that is not finite stops the run before the update, and is not saved") {
  const TempDir folder;
  const Run run = run_titan(small_run(
      folder.path(), {"--optimizer.lr=1e30", "--training.max_norm=1e9", "--checkpoint.interval=1"}));
  INFO(run.err);
  CHECK(run.exit == 1);
  CHECK_THAT(run.err, Contains("not both finite") && Contains("nothing of this step was saved"));
}

TEST_CASE("prepared data: the first kernel runs within a second of the start") {
  const TempDir folder;
  REQUIRE(run_titan(small_run(folder.path(), {"--training.steps=1"})).exit == 0);
  const auto begin = std::chrono::steady_clock::now();
  REQUIRE(run_titan(small_run(folder.path(), {"--training.steps=1", "--checkpoint.folder=other"})).exit == 0);
  CHECK(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() < 2.0);
}
