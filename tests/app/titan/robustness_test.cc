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

TEST_CASE("fewer OpenMP threads than asked for give the same losses") {
  const TempDir whole, limited;
  const std::vector<std::string> two{"--debug.threads=2", "--training.steps=4"};
  REQUIRE(run_titan(small_run(whole.path(), two)).exit == 0);
  const Run run = run_titan(small_run(limited.path(), two), {"OMP_THREAD_LIMIT=1"});
  INFO(run.err);
  REQUIRE(run.exit == 0);
  CHECK(losses(whole.path()) == losses(limited.path()));
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
