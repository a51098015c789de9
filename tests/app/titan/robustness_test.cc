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
  const std::vector<std::string> two{"--debug.threads=2", "--training.steps=4"};
  REQUIRE(run_titan(small_run(whole.path(), two)).exit == 0);
  const Run run = run_titan(small_run(limited.path(), two), {"OMP_THREAD_LIMIT=1"});
  INFO(run.err);
  REQUIRE(run.exit == 0);
  CHECK(losses(whole.path()) == losses(limited.path()));
}

TEST_CASE("closed standard streams leave the run's files clean") {
  const TempDir folder;
  REQUIRE(in_shell("", small_run(folder.path()), "<&- >&- 2>&-") == 0);
  CHECK(losses(folder.path()).size() == 12);  // parses every line
  CHECK(run_titan({"checkpoint", "verify", (folder / "out/checkpoint/step-12").string()}).exit == 0);
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
