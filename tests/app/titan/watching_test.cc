// What a run says about itself: norms, clipping, loss spikes, data that comes late.
#include <sys/ptrace.h>
#include <sys/wait.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstring>
#include <fstream>
#include <thread>

#include "tests/app/titan/run_titan.h"
#include "tests/support/temp_dir.h"

using namespace titan::test;
using Catch::Contains;
namespace fs = std::filesystem;

namespace {

std::vector<nlohmann::json> training_lines(const fs::path& folder) {
  std::vector<nlohmann::json> lines;
  for (const nlohmann::json& line : metrics(folder))
    if (line["kind"] == "train") lines.push_back(line);
  return lines;
}

/// The id of the thread of this name; -1 when there is none.
pid_t thread_named(pid_t process, const std::string& name) {
  for (const fs::directory_entry& task :
       fs::directory_iterator("/proc/" + std::to_string(process) + "/task")) {
    std::ifstream file(task.path() / "comm");
    std::string line;
    if (std::getline(file, line) && line == name) return std::stoi(task.path().filename());
  }
  return -1;
}

}  // namespace

TEST_CASE("norms of parameters are logged where asked, change nothing, and add up to the gradient norm") {
  const TempDir plain, asked;
  REQUIRE(run_titan(small_run(plain.path())).exit == 0);
  const Run run = run_titan(small_run(asked.path(), {"--metrics.log_parameter_norms", "--metrics.log_freq=5",
                                                     "--metrics.enable_tensorboard"}));
  INFO(run.err);
  REQUIRE(run.exit == 0);
  const auto lines = training_lines(asked.path());
  REQUIRE(lines.size() == 4);  // steps 1, 5, 10, 12
  for (const nlohmann::json& line : lines) {
    CHECK(line["loss"] == losses(plain.path()).at(line["step"]));
    REQUIRE(line["gradient_norms"].size() == 21);
    double squares = 0;
    for (const auto& [name, norm] : line["gradient_norms"].items())
      squares += std::pow(norm.get<double>(), 2);
    CHECK(std::sqrt(squares) == Approx(line["grad_norm"].get<double>()).epsilon(1e-5));
  }
  // RMSNorm weights start as ones, 32 of them.
  CHECK(lines.front()["weight_norms"]["model.norm.weight"].get<double>() == Approx(std::sqrt(32.0)));
  CHECK(training_lines(plain.path()).front().count("gradient_norms") == 0);
}

TEST_CASE("clipped steps are counted, in a line and in all, over a resume too") {
  const TempDir folder;
  const double max_norm = 0.9;
  const auto arguments = [&](int steps) {
    return small_run(folder.path(), {"--training.max_norm=0.9", "--lr_scheduler.total_steps=12",
                                     "--metrics.log_freq=1", "--training.steps=" + std::to_string(steps)});
  };
  REQUIRE(run_titan(arguments(7)).exit == 0);
  REQUIRE(run_titan(arguments(12)).exit == 0);
  std::int64_t total = 0;
  for (const nlohmann::json& line : training_lines(folder.path())) {
    const std::int64_t clipped = line["grad_norm"].get<double>() > max_norm;
    total += clipped;
    CHECK(line["clipped_steps"] == clipped);
    CHECK(line["clipped_steps_total"] == total);
  }
  CHECK(total > 0);
  CHECK(total < 12);
}

TEST_CASE("a loss spike is told with the samples of its batch, on steps that are not logged too") {
  const TempDir folder;
  auto arguments = small_run(folder.path(),
                             {"--training.steps=450", "--validation.enable=false", "--metrics.log_freq=1000",
                              "--optimizer.lr=1e-2", "--checkpoint.enable=false"});
  // A text that is soon learnt, and in its middle 4 lines of bytes that occur nowhere else.
  std::ofstream text(folder / "text.txt");
  for (int i = 0; i < 1500; ++i) {
    text << "all work and no play makes a dull run.\n";
    if (i % 300 == 150)
      for (int byte = 128; byte < 168; ++byte) text << static_cast<char>(byte * 101 % 128 + 128);
  }
  text.close();
  const Run run = run_titan(arguments);
  INFO(run.err);
  REQUIRE(run.exit == 0);
  CHECK_THAT(run.err, Contains("loss spike: step ") && Contains("gradient norm") && Contains("; samples "));
  const std::size_t at = run.err.find("loss spike: step ") + 17;
  const int step = std::stoi(run.err.substr(at));
  const int sample = std::stoi(run.err.substr(run.err.find("; samples ", at) + 10));
  CHECK(sample == (step - 1) * 4);

  // The command that shows them meets the odd bytes in these samples, and the ordinary text in all others.
  auto look = arguments;
  look.insert(look.begin(), "data");
  look[1] = "samples";
  const auto odd_bytes = [&](int first) {
    auto all = look;
    all.insert(all.end(), {"--first=" + std::to_string(first), "--count=4"});
    const Run shown = run_titan(all);
    INFO(shown.err);
    REQUIRE(shown.exit == 0);
    CHECK_THAT(shown.out, Contains("== sample " + std::to_string(first + 3) + ": epoch 1, window "));
    return std::count_if(shown.out.begin(), shown.out.end(), [](char c) { return c < 0; });
  };
  CHECK(odd_bytes(sample) > 4);

  arguments.emplace_back("--metrics.loss_spike_deviations=0");
  CHECK_THAT(run_titan(arguments).err, !Contains("loss spike"));
}

TEST_CASE("a step that waits for its data says so") {
  const TempDir folder;
  Running run(small_run(folder.path(), {"--training.steps=1000000", "--metrics.log_freq=1000",
                                        "--validation.enable=false", "--checkpoint.enable=false"}));
  REQUIRE(run.wait_for("step:  1 ", 30));
  // Nothing but the thread that loads stands still for a second, as if the disk did.
  const pid_t loader = thread_named(run.pid(), "titan-data");
  REQUIRE(loader > 0);
  if (ptrace(PTRACE_SEIZE, loader, nullptr, nullptr) != 0) {
    WARN("not tested: this system lets no test stop a thread (ptrace: " << std::strerror(errno) << ")");
    return;
  }
  REQUIRE(ptrace(PTRACE_INTERRUPT, loader, nullptr, nullptr) == 0);
  int status = 0;
  REQUIRE(waitpid(loader, &status, __WALL) == loader);
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  ptrace(PTRACE_DETACH, loader, nullptr, nullptr);
  CHECK(run.wait_for("s for its batch", 30));
  run.signal(SIGTERM);
  const Run stopped = run.wait();
  INFO(stopped.err);
  CHECK(stopped.exit == 3);
  CHECK_THAT(stopped.err,
             Catch::Matches(R"((.|\n)*data stall: step \d+ waited [1-9]\.\d s for its batch(.|\n)*)"));
}
