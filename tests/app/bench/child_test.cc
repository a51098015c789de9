#include "app/bench/child.h"

#include <catch2/catch.hpp>
#include <csignal>

#include "kernels/base/error.h"
#include "tests/support/temp_dir.h"

using namespace titan;

namespace {

ChildResult shell(const std::string& script, bool stop = false) {
  const test::TempDir folder;
  return run_child("/bin/sh", {"-c", script}, folder / "log", [&] { return stop; });
}

}  // namespace

TEST_CASE("a child's exit, signal, memory and last message are known") {
  CHECK(shell("exit 0").exit == 0);
  const ChildResult failed =
      shell("echo noise; echo 'titan: first' >&2; echo 'titan: 2 errors:\n  one\n  two'; exit 5");
  CHECK(failed.exit == 5);
  CHECK(failed.signal == 0);
  CHECK(failed.error == "one");
  CHECK(failed.peak_resident_bytes > 100'000);
  const ChildResult killed = shell("kill -9 $$");
  CHECK(killed.exit == -1);
  CHECK(killed.signal == SIGKILL);
  CHECK(killed.error.empty());
}

TEST_CASE("a child that is to stop gets SIGTERM") { CHECK(shell("sleep 60", true).signal == SIGTERM); }

TEST_CASE("an executable that is not there is an error") {
  const test::TempDir folder;
  CHECK_THROWS_AS(run_child("/no/such/program", {}, folder / "log", [] { return false; }), UserError);
}

TEST_CASE("the first line of a message that says what is wrong") {
  CHECK(first_error_line("") == "");
  CHECK(first_error_line("one thing") == "one thing");
  CHECK(first_error_line("one thing\nmore of it") == "one thing");
  CHECK(first_error_line("2 errors in the recipe:\n  a.b: x\n  c.d: y") == "a.b: x");
  CHECK(first_error_line("nothing follows:") == "nothing follows:");
}
