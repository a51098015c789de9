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
