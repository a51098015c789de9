// What users and machines do to a run: two at once, streams that are closed or full, limits, folders that
// cannot be written, numbers without sense.
#include <sys/wait.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <cstdlib>
#include <fstream>

#include "tests/app/titan/run_titan.h"
#include "tests/support/temp_dir.h"

using namespace titan::test;
using Catch::Contains;

namespace {

/// The exit code of `LIMITS titan ARGUMENTS REDIRECTIONS` in a shell; −signal when killed.
int in_shell(const std::string& limits, const std::vector<std::string>& arguments,
             const std::string& redirections) {
  std::string command = limits + " exec " TITAN_EXECUTABLE;
  for (const std::string& a : arguments) command += " '" + a + "'";
  const int status = std::system((command + " " + redirections).c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

std::string read(const std::filesystem::path& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace

TEST_CASE("fewer OpenMP threads than asked for give the same losses") {
  const TempDir whole, limited;
  // titan's own products; those of oneDNN may change their bits with the number of threads.
  const std::string own = "TITAN_CPU_ISA=avx512_bf16";
  const std::vector<std::string> two{"--debug.threads=2", "--training.steps=4"};
  REQUIRE(run_titan(small_run(whole.path(), two), {own}).exit == 0);
  const Run run = run_titan(small_run(limited.path(), two), {own, "OMP_THREAD_LIMIT=1"});
  INFO(run.err);
  REQUIRE(run.exit == 0);
  CHECK(losses(whole.path()) == losses(limited.path()));
}

TEST_CASE("a dump folder has one run at a time") {
  const TempDir folder;
  const auto endless = small_run(folder.path(), {"--training.steps=1000000", "--metrics.log_freq=100"});
  Running first(endless);
  REQUIRE(first.wait_for("step:  1 ", 30));
  const Run second = run_titan(endless);
  CHECK(second.exit == 1);
  CHECK_THAT(second.err, Contains("another titan train is running in " + (folder / "out").string()));
  CHECK(run_titan(small_run(folder.path(), {"--dry-run"})).exit == 0);
  first.signal(SIGTERM);
  CHECK(first.wait().exit == 3);
}

TEST_CASE("closed standard streams leave the run's files clean") {
  const TempDir folder;
  REQUIRE(in_shell("", small_run(folder.path()), "<&- >&- 2>&-") == 0);
  CHECK(losses(folder.path()).size() == 12);  // parses every line
  CHECK(run_titan({"checkpoint", "verify", (folder / "out/checkpoint/step-12").string()}).exit == 0);
}

TEST_CASE("a reader of the log that goes away does not end the run") {
  const TempDir folder;
  REQUIRE(in_shell("", small_run(folder.path()), "2>&1 | head -n 1 > /dev/null") == 0);
  // The shell returned with the last of the pipe: the run itself may still have steps to go.
  for (int i = 0; i < 3000 && !std::filesystem::exists(folder / "out/checkpoint/step-12"); ++i)
    std::system("sleep 0.01");
  CHECK(std::filesystem::exists(folder / "out/checkpoint/step-12"));
}

TEST_CASE("a file-size limit is a failed save, not a death") {
  const TempDir folder;
  const auto few_steps = small_run(folder.path(), {"--training.steps=6"});
  REQUIRE(run_titan(small_run(folder.path(), {"--training.steps=1", "--checkpoint.enable=false"})).exit == 0);
  const std::string log = (folder / "log").string();
  CHECK(in_shell("ulimit -f 64;", few_steps, "2>" + log) == 1);
  CHECK_THAT(read(log), Contains("The checkpoint of step 5 was not saved") && Contains("step:  6 "));
}

TEST_CASE("results that do not reach stdout are an error") {
  const TempDir folder;
  auto plan = small_run(folder.path());
  plan[0] = "plan";
  for (const std::string stdout_ : {">/dev/full", ">&-"}) {
    for (const auto& arguments : {plan, {"doctor"}, {"--version"}, {"train", "--help"}}) {
      INFO(arguments.front() << stdout_);
      const std::string log = (folder / "log").string();
      CHECK(in_shell("", arguments, stdout_ + " 2>" + log) == 1);
      CHECK_THAT(read(log), Contains("cannot write to"));
    }
  }
  CHECK(in_shell("", {"plan", "/nowhere.toml"}, ">/dev/full 2>/dev/full") == 2);
}

TEST_CASE("a run that could not save is refused before it starts, and by a dry run") {
  const TempDir folder;
  std::ofstream(folder / "file") << "not a folder";
  const bool dry = GENERATE(false, true);
  auto arguments =
      small_run(folder.path(), {"--checkpoint.folder=" + (folder / "file" / "checkpoint").string()});
  if (dry) arguments.emplace_back("--dry-run");
  const Run run = run_titan(arguments);
  INFO(run.err);
  CHECK(run.exit == 1);
  CHECK_THAT(run.err, Contains("checkpoints cannot be saved in") && !Contains("step:  1"));
}

TEST_CASE("what a run could not start from is refused, and by a dry run too") {
  const TempDir folder;
  REQUIRE(run_titan(small_run(folder.path(), {"--training.steps=3"})).exit == 0);
  const auto [change, words] = GENERATE(table<std::vector<std::string>, std::string>({
      {{"--model.ffn_dim=96"}, "mlp.gate_proj.weight has shape [64, 32] there, [96, 32]"},
      {{"--model.n_layers=3"}, "it has no model.layers.2."},
      {{"--model.n_heads=2", "--model.n_kv_heads=1"}, "it has 4 query and 2 key-value heads"},
      {{"--checkpoint.load_step=9"}, "it has steps [3]"},
      {{"--checkpoint.folder=new", "--checkpoint.initial_load_path=/nowhere"}, "/nowhere"},
  }));
  for (const char* mode : {"--job.print_config=false", "--dry-run"}) {
    auto overrides = change;
    overrides.emplace_back(mode);
    const Run run = run_titan(small_run(folder.path(), overrides));
    INFO(run.err);
    CHECK(run.exit == 1);
    CHECK_THAT(run.err, Contains(words));
  }
}

TEST_CASE("a finished run says so") {
  const TempDir folder;
  REQUIRE(run_titan(small_run(folder.path())).exit == 0);
  const Run again = run_titan(small_run(folder.path(), {"--training.steps=8"}));
  CHECK(again.exit == 0);
  CHECK_THAT(again.err, Contains("Nothing to do: the run has made 12 steps, and training.steps is 8"));
}

TEST_CASE("a start before steps that are there is refused, and by a dry run too") {
  const TempDir folder;
  REQUIRE(run_titan(small_run(folder.path())).exit == 0);
  for (const char* mode : {"--job.print_config=false", "--dry-run"}) {
    const Run older = run_titan(small_run(folder.path(), {"--checkpoint.load_step=5", mode}));
    CHECK(older.exit == 1);
    CHECK_THAT(older.err, Contains("would start at step 5") && Contains("later steps [10, 12]") &&
                              Contains("leave out checkpoint.load_step to go on from step 12"));
    const Run anew =
        run_titan(small_run(folder.path(), {"--checkpoint.exclude_from_loading=train_state", mode}));
    CHECK(anew.exit == 1);
    CHECK_THAT(anew.err, Contains("would start at step 0") && Contains("checkpoint.initial_load_path"));
  }
  // Nothing is saved, so nothing is mixed.
  CHECK(run_titan(small_run(folder.path(), {"--checkpoint.load_step=5", "--checkpoint.load_only"})).exit ==
        0);
  std::filesystem::create_directory(folder / "aside");
  for (const char* step : {"step-10", "step-12"})
    std::filesystem::rename(folder / "out/checkpoint" / step, folder / "aside" / step);
  const Run moved = run_titan(small_run(folder.path(), {"--checkpoint.load_step=5"}));
  CHECK(moved.exit == 0);
  CHECK_THAT(moved.err, Contains("Training starts at step 6"));
}

TEST_CASE("little address space is an error in words, at any limit") {
  const TempDir folder;
  // Below the first the loader of the system refuses; from the last on there is enough.
  for (const int mebibytes : {52, 60, 72, 92, 132, 172, 212, 400, 1000}) {
    INFO("ulimit -v " << mebibytes * 1024);
    std::filesystem::remove_all(folder / "out");
    const std::string log = (folder / "log").string();
    const int exit =
        in_shell("ulimit -v " + std::to_string(mebibytes * 1024) + ";",
                 small_run(folder.path(), {"--training.steps=1", "--debug.threads=2"}), "2>" + log);
    INFO(read(log));
    CHECK((exit == 1 || exit == (mebibytes == 1000 ? 0 : 127)));
    if (exit == 1)
      CHECK_THAT(read(log), Contains("ulimit -v") || Contains("out of memory") ||
                                Contains("libgomp: Thread creation failed"));
  }
}

TEST_CASE("too many tokens or micro-batches are refused with the numbers") {
  const auto [overrides, words] = GENERATE(table<std::vector<std::string>, std::string>({
      {{"--training.local_batch_size=2000000000", "--training.global_batch_size=-1"},
       "2000000000 sequences of 32 tokens"},
      {{"--training.local_batch_size=1", "--training.global_batch_size=1000000000"},
       "1000000000 micro-batches of 1 sequences"},
      {{"--validation.local_batch_size=2000000000"}, "2000000000 sequences of 32 tokens"},
  }));
  const TempDir folder;
  auto plan = small_run(folder.path(), overrides);
  plan[0] = "plan";
  const Run run = run_titan(plan);
  CHECK(run.exit == 1);
  CHECK_THAT(run.err, Contains(words));
}

TEST_CASE("options take numbers that make sense") {
  const std::string option =
      GENERATE("--temperature=nan", "--temperature=inf", "--temperature=-1", "--top-k=-1", "--threads=-1",
               "--threads=1000000", "--max-new-tokens=0", "--max-new-tokens=9223372036854775807");
  const Run run = run_titan({"generate", "/nowhere", "--prompt", "x", option});
  CHECK(run.exit == 2);
  CHECK_THAT(run.err, Contains(option.substr(0, option.find('='))) && Contains(": expected a"));
}
