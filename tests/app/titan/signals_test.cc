// SIGTERM, SIGINT and SIGUSR1 in every phase of a run. A phase is met by a line of the log, a file, or a lock
// that holds the run where it is; where that leaves a race, the case is tried until it meets the phase.
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <fstream>
#include <functional>
#include <thread>

#include "tests/app/titan/run_titan.h"
#include "tests/support/temp_dir.h"

using namespace titan::test;
using Catch::Contains;
namespace fs = std::filesystem;

namespace {

constexpr int kAttempts = 20;

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::vector<std::string> with(std::vector<std::string> a, const std::vector<std::string>& more) {
  a.insert(a.end(), more.begin(), more.end());
  return a;
}

/// 17 million parameters, 200 MB of state: setting up, loading and saving take long enough to be met.
const std::vector<std::string> kMiddling{"--model.dim=512",
                                         "--model.n_layers=4",
                                         "--model.n_heads=8",
                                         "--model.n_kv_heads=8",
                                         "--model.ffn_dim=2048",
                                         "--training.local_batch_size=1",
                                         "--training.global_batch_size=1",
                                         "--validation.enable=false",
                                         "--training.steps=1000",
                                         "--debug.threads=1"};

/// A step of several seconds.
const std::vector<std::string> kLongStep{"--model.dim=256",
                                         "--model.n_layers=4",
                                         "--training.seq_len=1024",
                                         "--training.local_batch_size=1",
                                         "--training.global_batch_size=16",
                                         "--validation.enable=false",
                                         "--training.steps=1000"};

void wait_until(const std::function<bool()>& happened) {
  for (int i = 0; i < 120'000 && !happened(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  REQUIRE(happened());
}

/// flock on a file, as titan's own locks.
class HeldLock {
 public:
  explicit HeldLock(const fs::path& path) {
    fs::create_directories(path.parent_path());
    descriptor_ = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    REQUIRE(flock(descriptor_, LOCK_EX) == 0);
  }
  ~HeldLock() { close(descriptor_); }

 private:
  int descriptor_;
};

}  // namespace

TEST_CASE("a signal at start-up ends it, and the next start is as new") {
  const TempDir folder;
  const auto arguments = small_run(folder.path(), {"--training.steps=3"});
  for (int milliseconds = 0; milliseconds < 40; milliseconds += 5) {
    Running run(arguments);
    std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
    run.signal(SIGTERM);
    const Run stopped = run.wait();
    INFO(milliseconds << " ms: " << stopped.exit << "\n" << stopped.err);
    // Before main the system's own way to end applies, after the last step the run is done.
    CHECK((stopped.exit == 3 || stopped.exit == -SIGTERM || stopped.exit == 0));
    if (stopped.exit == -SIGTERM) CHECK(stopped.err.empty());
  }
  CHECK(run_titan(arguments).exit == 0);
  CHECK(losses(folder.path()).size() == 3);
}

TEST_CASE("a signal while data is prepared ends at once") {
  const TempDir folder;
  const bool by_hand = GENERATE(false, true);
  const int number = GENERATE(SIGTERM, SIGINT, SIGUSR1);
  const fs::path cache = folder / "cache";
  auto arguments = small_run(folder.path(), {"--training.data_cache=" + cache.string()});
  if (by_hand)
    arguments = {"data",     "prepare",     (folder / "text.txt").string(), "--tokenizer", "byte",
                 "--output", cache.string()};
  {
    const HeldLock lock(cache / "hashes.lock");
    Running run(arguments);
    if (by_hand)
      std::this_thread::sleep_for(std::chrono::milliseconds(300));  // it has no line before this one
    else
      REQUIRE(run.wait_for("Building llama3", 30));
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    run.signal(number);
    const Run stopped = run.wait();
    INFO(stopped.err);
    CHECK(stopped.exit == 3);
    CHECK_THAT(stopped.err, Contains(by_hand ? "whole shards are kept" : "prepared data is kept"));
  }
  CHECK(run_titan(arguments).exit == 0);
}

TEST_CASE("a signal while weights are made or loaded ends at once", "[slow]") {
  const TempDir folder;
  const bool loads = GENERATE(false, true);
  auto arguments = small_run(folder.path(), kMiddling);
  if (loads) REQUIRE(run_titan(with(arguments, {"--training.steps=1"})).exit == 0);
  bool met = false;
  for (int i = 0; i < kAttempts && !met; ++i) {
    Running run(arguments);
    REQUIRE(run.wait_for("Checkpointing active", 60));
    run.signal(SIGTERM);
    const Run stopped = run.wait();
    INFO(stopped.err);
    CHECK(stopped.exit == 3);
    met = !contains(stopped.err, "Training starts at");
    if (met) CHECK_THAT(stopped.err, Contains("SIGTERM: stopped before the first step: nothing to save"));
  }
  CHECK(met);
  if (loads)
    CHECK(run_titan({"checkpoint", "verify", (folder / "out/checkpoint/step-1").string()}).exit == 0);
}

TEST_CASE("a signal in the first step saves that step") {
  const TempDir folder;
  const auto arguments =
      small_run(folder.path(), {"--model.dim=128", "--training.seq_len=256", "--training.global_batch_size=8",
                                "--training.steps=1000", "--validation.enable=false"});
  Running run(arguments);
  REQUIRE(run.wait_for("Training starts at step 1", 30));
  run.signal(SIGUSR1);
  const Run stopped = run.wait();
  INFO(stopped.err);
  CHECK(stopped.exit == 3);
  CHECK_THAT(stopped.err, Contains("SIGUSR1 received: stopping after step 1") && Contains("step-1:"));
  CHECK(run_titan({"checkpoint", "verify", (folder / "out/checkpoint/step-1").string()}).exit == 0);
}

TEST_CASE("a signal breaks a validation off, and the step it belongs to is saved") {
  const TempDir folder;
  std::ofstream(folder / "long.txt") << std::string(4'000'000, 'x');
  const auto arguments = small_run(
      folder.path(), {"--validation.dataset_path=" + (folder / "long.txt").string(),
                      "--validation.local_batch_size=1", "--validation.steps=-1", "--training.steps=1"});
  for (const bool last : {false, true}) {
    const auto all = last ? arguments : with(arguments, {"--training.steps=9"});
    fs::remove_all(folder / "out");
    Running run(all);
    REQUIRE(run.wait_for("step:  1 ", 30));
    run.signal(SIGTERM);
    const Run stopped = run.wait();
    INFO(stopped.err);
    CHECK(stopped.exit == (last ? 0 : 3));  // all steps are done: nothing is left for a restart
    CHECK_THAT(stopped.err,
               Contains("the validation of step 1 was broken off") && !Contains("validate step:  1"));
    CHECK(run_titan({"checkpoint", "verify", (folder / "out/checkpoint/step-1").string()}).exit == 0);
  }
}

TEST_CASE("a signal in a save lets it finish and makes no other", "[slow]") {
  const TempDir folder;
  const auto arguments = small_run(folder.path(), with(kMiddling, {"--checkpoint.interval=2"}));
  const fs::path step_2 = folder / "out/checkpoint/step-2";
  bool met = false;
  for (int i = 0; i < kAttempts && !met; ++i) {
    fs::remove_all(folder / "out/checkpoint");
    Running run(arguments);
    wait_until([&] { return fs::exists(step_2.string() + ".tmp") || fs::exists(step_2); });
    run.signal(SIGTERM);
    const Run stopped = run.wait();
    INFO(stopped.err);
    CHECK(stopped.exit == 3);
    met = contains(stopped.err, "stopping after step 2");
    if (met) CHECK(stopped.err.find("INFO - saved ") == stopped.err.rfind("INFO - saved "));
    CHECK(!fs::exists(step_2.string() + ".tmp"));
    CHECK(run_titan({"checkpoint", "verify", step_2.string()}).exit == 0);
  }
  CHECK(met);
}

TEST_CASE("a signal after the last step changes nothing") {
  const TempDir folder;
  const auto arguments = small_run(folder.path(), {"--training.steps=2"});
  for (const char* line : {"step:  2 ", "Training completed"}) {
    fs::remove_all(folder / "out");
    Running run(arguments);
    REQUIRE(run.wait_for(line, 30));
    run.signal(SIGTERM);
    const Run done = run.wait();
    INFO(line << "\n" << done.err);
    CHECK(done.exit == 0);
    CHECK(fs::exists(folder / "out/checkpoint/step-2"));
  }
}

TEST_CASE("a second signal ends a step at once, without a save") {
  const TempDir folder;
  Running run(small_run(folder.path(), kLongStep));
  REQUIRE(run.wait_for("Training starts at step 1", 30));
  run.signal(SIGTERM);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  run.signal(SIGUSR1);
  const Run stopped = run.wait();
  INFO(stopped.err);
  CHECK(stopped.exit == 3);
  CHECK_THAT(stopped.err, Contains("SIGUSR1: the second signal: stopped at once, without a save") &&
                              !Contains("step:  1 "));
  CHECK(fs::is_empty(folder / "out/checkpoint"));
}

TEST_CASE("a second signal ends a save at once, and the checkpoint before it is taken", "[slow]") {
  const TempDir folder;
  const auto arguments = small_run(folder.path(), with(kMiddling, {"--checkpoint.interval=2"}));
  const fs::path step_4 = folder / "out/checkpoint/step-4", leftover = step_4.string() + ".tmp";
  bool met = false;
  for (int i = 0; i < kAttempts && !met; ++i) {
    fs::remove_all(folder / "out/checkpoint");
    Running run(arguments);
    wait_until([&] { return fs::exists(leftover) || fs::exists(step_4); });
    run.signal(SIGTERM);
    run.signal(SIGUSR1);
    const Run stopped = run.wait();
    INFO(stopped.err);
    CHECK(stopped.exit == 3);
    met = fs::exists(leftover);
  }
  REQUIRE(met);
  const Run next = run_titan(with(arguments, {"--training.steps=5"}));
  INFO(next.err);
  CHECK(next.exit == 0);
  CHECK_THAT(next.err,
             Contains("left by a save that did not finish") && Contains("Training starts at step 3"));
}
