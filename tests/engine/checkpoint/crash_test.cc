// A save may end at any moment: the process killed, the disk full. What was saved before always loads.
#include "engine/checkpoint/catalog.h"
#include "tests/engine/checkpoint/fixture.h"
#include "tests/support/temp_dir.h"

#include <catch2/catch.hpp>

#include <spdlog/spdlog.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <limits>
#include <set>

using namespace titan;
using namespace titan::test;
using Catch::Contains;
namespace fs = std::filesystem;

namespace {

/// A hook that calls `fail` at operation number `at` (from 0).
SaveOptions failing_at(int at, std::function<void(std::string_view, const fs::path&)> fail) {
  SaveOptions options;
  options.hook = [=, count = std::make_shared<int>(0)](std::string_view operation, const fs::path& path) {
    if ((*count)++ == at) fail(operation, path);
  };
  return options;
}

int count_operations() {
  const TempDir folder;
  int count = 0;
  SaveOptions options;
  options.hook = [&](std::string_view, const fs::path&) { ++count; };
  save_small(folder.path(), 1);
  save_small(folder.path(), 1, options);  // replacing takes the most operations
  return count;
}

/// Runs `body` in a child process; true if it ended by itself with exit code 0.
bool run_in_child(const std::function<void()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    body();
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/// Every checkpoint loads with the values of its step, and no leftover survives the start of the next run.
void check_folder(const fs::path& folder) {
  remove_leftovers(folder);
  for (const CheckpointEntry& entry : find_checkpoints(folder)) {
    CAPTURE(entry.path.string(), entry.problem);
    REQUIRE(entry.status == CheckpointStatus::complete);
    REQUIRE(load_small(entry.path, entry.step) == 0);
  }
}

}  // namespace

TEST_CASE("a process that dies before any disk operation of a save loses no checkpoint") {
  const int operations = count_operations();
  REQUIRE(operations > 10);
  for (int at = 0; at < operations; ++at) {
    for (const int64_t step : {1, 2}) {  // 1 replaces the checkpoint there, 2 is a new one
      const TempDir folder;
      save_small(folder.path(), 1);
      CAPTURE(at, step);
      run_in_child([&] {
        save_small(folder.path(), step, failing_at(at, [](auto, const auto&) { raise(SIGKILL); }));
      });
      check_folder(folder.path());
      REQUIRE(latest_checkpoint(folder.path()).has_value());
    }
  }
}

TEST_CASE(
    "a disk that fills up at any write fails the save, keeps the last checkpoint and removes the rest") {
  const int operations = count_operations();
  for (int at = 0; at < operations; ++at) {
    const TempDir folder;
    save_small(folder.path(), 1);
    std::string failed;
    const SaveOptions options = failing_at(at, [&](std::string_view operation, const fs::path& path) {
      if (operation == "remove") return;
      failed = path.string();
      throw_disk_error(operation, path, ENOSPC);
    });
    CAPTURE(at);
    const std::string message = user_error([&] { save_small(folder.path(), 2, options); });
    if (failed.empty()) continue;
    CHECK_THAT(message, Contains(failed) && Contains("No space left") && Contains("keep_latest_k"));
    CHECK_FALSE(fs::exists(folder / "step-2.tmp"));
    check_folder(folder.path());
    CHECK(load_small(folder / "step-1", 1) == 0);
  }
}

TEST_CASE("kill -9 at random times during saves loses no checkpoint") {
  std::mt19937 random(11);
  const TempDir folder;
  const double save_seconds = save_small(folder.path(), 1).seconds;
  int64_t step = 1;
  for (int round = 0; round < 15 || (step == 1 && round < 200); ++round) {
    const pid_t child = fork();
    if (child == 0) {
      spdlog::set_level(spdlog::level::off);
      for (int64_t next = step + 1;; ++next) {
        save_small(folder.path(), next);
        keep_latest(folder.path(), 2, std::numeric_limits<int64_t>::max());
      }
    }
    usleep(static_cast<useconds_t>(save_seconds * static_cast<double>(random() % 6'000'000)));
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    check_folder(folder.path());
    const auto latest = latest_checkpoint(folder.path());
    REQUIRE(latest.has_value());
    REQUIRE(latest->step >= step);
    step = latest->step;
  }
  CHECK(step > 1);
}

TEST_CASE("each disk error comes with its fix") {
  const auto [error, fix] = GENERATE(table<int, const char*>(
      {{EFBIG, "ulimit -f"}, {EROFS, "job.dump_folder"}, {EACCES, "permission"}, {EDQUOT, "quota"}}));
  const TempDir folder;
  const SaveOptions options =
      failing_at(3, [error = error](std::string_view operation, const fs::path& path) {
        throw_disk_error(operation, path, error);
      });
  CHECK_THAT(user_error([&] { save_small(folder.path(), 2, options); }),
             Contains("step-2.tmp") && Contains(fix));
}
