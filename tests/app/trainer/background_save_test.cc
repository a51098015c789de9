// Runs that save in the background: the same numbers and the same files as others, on disks that are slow,
// full or gone.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <fstream>
#include <sstream>
#include <thread>

#include "app/trainer/signals.h"
#include "app/trainer/trainer.h"
#include "engine/checkpoint/catalog.h"
#include "engine/metrics/log.h"
#include "engine/recipe/recipe.h"
#include "tests/app/titan/run_titan.h"
#include "tests/support/temp_dir.h"

using namespace titan;
using namespace titan::test;
using Catch::Contains;
namespace fs = std::filesystem;

namespace {

struct Outcome {
  Exit exit = Exit::failed;
  std::string error, log;
};

/// small_run on one thread, here.
Outcome train_here(const fs::path& folder, std::vector<std::string> overrides, DiskHook hook = {}) {
  overrides.emplace_back("--debug.threads=1");
  const std::vector<std::string> arguments = small_run(folder, overrides);
  Outcome outcome;
  std::ostringstream log;
  stop_at_once_on_signals("the run has not begun");  // as the command does
  setup_logging({}, log);
  try {
    outcome.exit =
        train(load_recipe(arguments.at(1), overrides), {.dry_run = false, .disk_hook = std::move(hook)});
  } catch (const UserError& error) {
    outcome.error = error.what();
  }
  setup_logging({});
  outcome.log = log.str();
  return outcome;
}

const std::vector<std::string> kAsync{"--checkpoint.async_mode=async"};

std::vector<std::string> async(std::vector<std::string> more) {
  more.insert(more.end(), kAsync.begin(), kAsync.end());
  return more;
}

fs::path checkpoints(const TempDir& folder) { return folder / "out/checkpoint"; }

std::vector<int64_t> saved_steps(const TempDir& folder) {
  std::vector<int64_t> steps;
  for (const CheckpointEntry& entry : find_checkpoints(checkpoints(folder)))
    if (entry.status == CheckpointStatus::complete) steps.push_back(entry.step);
  return steps;
}

std::string tensors(const TempDir& folder, int64_t step) {
  std::ifstream in(checkpoint_path(checkpoints(folder), step) / "rank-0.safetensors", std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// Whether an operation belongs to the save of `step`.
bool is_of(const fs::path& path, int64_t step) {
  return path.string().find("step-" + std::to_string(step) + ".tmp") != std::string::npos;
}

/// A disk that takes its time for every write of a step.
DiskHook slow_disk(int64_t step, std::chrono::milliseconds delay) {
  return [=](std::string_view operation, const fs::path& path) {
    if (operation == "write" && is_of(path, step)) std::this_thread::sleep_for(delay);
  };
}

/// The wait status of a child process that trains.
int train_in_child(const fs::path& folder, const std::vector<std::string>& overrides, const DiskHook& hook) {
  const pid_t child = fork();
  if (child == 0) {
    train_here(folder, overrides, hook);
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}

}  // namespace

TEST_CASE("saving in the background changes neither losses nor checkpoints, bit for bit") {
  const TempDir plain, background;
  // 11 steps: the save of step 10 is staged by the last step; the first step's by one after a validation.
  const std::vector<std::string> often{"--checkpoint.interval=2", "--training.steps=11",
                                       "--checkpoint.enable_first_step_checkpoint",
                                       "--checkpoint.keep_latest_k=0"};
  REQUIRE(train_here(plain.path(), often).exit == Exit::ok);
  const Outcome run = train_here(background.path(), async(often));
  INFO(run.log);
  REQUIRE(run.exit == Exit::ok);
  CHECK(losses(plain.path()).size() == 11);
  CHECK(losses(plain.path()) == losses(background.path()));
  REQUIRE(saved_steps(plain) == std::vector<int64_t>{1, 2, 4, 6, 8, 10, 11});
  REQUIRE(saved_steps(background) == saved_steps(plain));
  for (const int64_t step : saved_steps(plain)) {
    INFO(step);
    CHECK(!tensors(plain, step).empty());
    CHECK(tensors(plain, step) == tensors(background, step));
  }
  CHECK_THAT(
      run.log,
      Contains(" B (0.00 GiB) where saves are staged") &&
          Catch::Matches("(.|\n)*saved [^\n]*/step-4: [^\n]* MiB/s\\), training held [0-9.]+ s\n(.|\n)*"));
}

TEST_CASE("a run resumed from what was saved in the background is the uninterrupted run, bit for bit") {
  const TempDir whole, parts;
  REQUIRE(train_here(whole.path(), {}).exit == Exit::ok);
  REQUIRE(train_here(parts.path(), kAsync).exit == Exit::ok);
  for (const int64_t step : {10, 12}) fs::remove_all(checkpoint_path(checkpoints(parts), step));
  const Outcome resumed = train_here(parts.path(), async({"--checkpoint.load_step=5"}));
  INFO(resumed.log);
  REQUIRE(resumed.exit == Exit::ok);
  CHECK_THAT(resumed.log, Contains("Training starts at step 6"));
  CHECK(losses(whole.path()) == losses(parts.path()));
  CHECK(tensors(whole, 12) == tensors(parts, 12));
}

TEST_CASE("steps go on while the disk writes, and only the next save waits for it, and says so") {
  const TempDir folder;
  std::atomic<bool> written{false};
  std::atomic<int64_t> steps_then{0};
  const Outcome run = train_here(folder.path(), async({"--training.steps=13", "--validation.enable=false"}),
                                 [&](std::string_view operation, const fs::path& path) {
                                   if (!is_of(path, 5) || operation != "write" || written.exchange(true))
                                     return;
                                   std::this_thread::sleep_for(std::chrono::milliseconds(700));
                                   steps_then = static_cast<int64_t>(metrics(folder.path()).size());
                                 });
  INFO(run.log);
  REQUIRE(run.exit == Exit::ok);
  CHECK(steps_then > 6);    // step 6 has staged the state of step 5
  CHECK(steps_then <= 10);  // step 11 stages step 10 into the memory that is being written
  CHECK_THAT(run.log, Contains("slow save: training waited 0.") &&
                          Contains("for the checkpoint of step 5, ") &&
                          Contains(" MiB/s); raise checkpoint.interval or save to a faster disk"));
  CHECK(run.log.find("slow save") == run.log.rfind("slow save"));
  CHECK(saved_steps(folder) == std::vector<int64_t>{5, 10, 13});
}

TEST_CASE("a failed save in the background is reported at a step boundary, and training goes on") {
  const TempDir plain, folder;
  REQUIRE(train_here(plain.path(), {}).exit == Exit::ok);
  const Outcome run = train_here(folder.path(), kAsync, [](std::string_view operation, const fs::path& path) {
    if (operation == "write" && is_of(path, 5)) throw_disk_error(operation, path, ENOSPC);
  });
  INFO(run.log);
  REQUIRE(run.exit == Exit::ok);
  CHECK_THAT(run.log, Contains("The checkpoint of step 5 was not saved: cannot write") &&
                          Contains("No space left") &&
                          Contains(". Training goes on; the last good checkpoint"));
  CHECK(run.log.find("not saved") < run.log.find("/step-12: "));
  CHECK(saved_steps(folder) == std::vector<int64_t>{10, 12});
  CHECK(losses(plain.path()) == losses(folder.path()));
}

TEST_CASE("the last save fails the run if it fails, after the one in flight has ended") {
  const TempDir folder;
  const Outcome run = train_here(folder.path(), async({"--training.steps=11"}),
                                 [](std::string_view operation, const fs::path& path) {
                                   if (operation == "write" && is_of(path, 10))
                                     std::this_thread::sleep_for(std::chrono::milliseconds(50));
                                   if (operation == "write" && is_of(path, 11))
                                     throw_disk_error(operation, path, ENOSPC);
                                 });
  INFO(run.log);
  CHECK_THAT(run.error, Contains("step-11.tmp") && Contains("No space left"));
  CHECK_THAT(run.log, Contains("Waiting until the checkpoint of step 10 is written"));
  CHECK(saved_steps(folder) == std::vector<int64_t>{5, 10});
}

TEST_CASE(
    "a process killed while it saves in the background has the checkpoint before, and resumes from it") {
  const TempDir whole, folder;
  REQUIRE(train_here(whole.path(), {}).exit == Exit::ok);
  const int status =
      train_in_child(folder.path(), kAsync, [](std::string_view operation, const fs::path& path) {
        if (operation == "rename" && is_of(path, 10)) raise(SIGKILL);
      });
  REQUIRE(WIFSIGNALED(status));
  CHECK(saved_steps(folder) == std::vector<int64_t>{5});
  CHECK(fs::exists(checkpoints(folder) / "step-10.tmp"));
  const Outcome resumed = train_here(folder.path(), kAsync);
  INFO(resumed.log);
  REQUIRE(resumed.exit == Exit::ok);
  CHECK_THAT(resumed.log,
             Contains("left by a save that did not finish") && Contains("Training starts at step 6"));
  CHECK(saved_steps(folder) == std::vector<int64_t>{5, 10, 12});
  CHECK(losses(whole.path()) == losses(folder.path()));
}

TEST_CASE("a signal during a save in the background: both are saved, and the run resumes bit for bit") {
  const TempDir whole, folder;
  const std::vector<std::string> longer{"--training.steps=400", "--checkpoint.interval=100"};
  REQUIRE(train_here(whole.path(), longer).exit == Exit::ok);
  std::atomic<bool> sent{false};
  const Outcome stopped =
      train_here(folder.path(), async(longer), [&](std::string_view operation, const fs::path& path) {
        if (operation == "write" && is_of(path, 100) && !sent.exchange(true)) {
          kill(getpid(), SIGTERM);
          std::this_thread::sleep_for(std::chrono::milliseconds(50));
        }
      });
  INFO(stopped.log);
  REQUIRE(stopped.exit == Exit::stopped_by_signal);
  REQUIRE(saved_steps(folder).size() == 2);
  CHECK(saved_steps(folder).front() == 100);
  CHECK(saved_steps(folder).back() > 100);
  REQUIRE(train_here(folder.path(), async(longer)).exit == Exit::ok);
  CHECK(losses(whole.path()) == losses(folder.path()));
}

TEST_CASE("a second signal ends the process at once, whatever the disk does") {
  const TempDir folder;
  const auto start = std::chrono::steady_clock::now();
  const int status =
      train_in_child(folder.path(), kAsync, [](std::string_view operation, const fs::path& path) {
        if (operation != "write" || !is_of(path, 5)) return;
        for (int i = 0; i < 300; ++i) {  // signals that meet become one
          kill(getpid(), SIGTERM);
          std::this_thread::sleep_for(std::chrono::milliseconds(100));
        }
      });
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == static_cast<int>(Exit::stopped_by_signal));
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(15));
  CHECK(saved_steps(folder).empty());
}

TEST_CASE("a step that is not finite: the state before it is saved, as it would be without a background") {
  const std::vector<std::string> diverging{"--optimizer.lr=1e30", "--training.max_norm=1e9",
                                           "--checkpoint.interval=1"};
  const TempDir plain, folder;
  const Outcome expected = train_here(plain.path(), diverging);
  const Outcome run =
      train_here(folder.path(), async(diverging), slow_disk(1, std::chrono::milliseconds(20)));
  INFO(run.log);
  CHECK_THAT(run.error, Contains("not both finite"));
  CHECK(run.error == expected.error);
  REQUIRE(!saved_steps(plain).empty());
  REQUIRE(saved_steps(folder) == saved_steps(plain));
  for (const int64_t step : saved_steps(plain)) CHECK(tensors(plain, step) == tensors(folder, step));
}

TEST_CASE("only the latest checkpoints stay") {
  const TempDir folder;
  REQUIRE(
      train_here(folder.path(), async({"--checkpoint.interval=2", "--checkpoint.keep_latest_k=2"})).exit ==
      Exit::ok);
  CHECK(saved_steps(folder) == std::vector<int64_t>{10, 12});
}
