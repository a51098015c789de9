// Damage, full disks, read-only folders and numbers that are not finite: what a run says, keeps and goes on
// from. Random kills are scripts/faults/kill.py.
#include <sys/mount.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstring>
#include <fstream>

#include "tests/app/titan/run_titan.h"
#include "tests/support/temp_dir.h"

using namespace titan::test;
using Catch::Contains;
namespace fs = std::filesystem;

namespace {

std::vector<std::string> with(std::vector<std::string> a, const std::vector<std::string>& more) {
  a.insert(a.end(), more.begin(), more.end());
  return a;
}

std::string read(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void flip(const fs::path& path, std::streamoff from_end) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(-from_end, std::ios::end);
  const char byte = static_cast<char>(file.peek() ^ 0x10);
  file.seekp(-from_end, std::ios::end);
  file.put(byte);
}

fs::path step(const fs::path& folder, int number) {
  return folder / "out/checkpoint" / ("step-" + std::to_string(number));
}

bool valid(const fs::path& checkpoint) {
  return run_titan({"checkpoint", "verify", checkpoint.string()}).exit == 0;
}

/// The schedule is that of 12 steps, wherever a part of the run ends.
std::vector<std::string> part(const fs::path& folder, int steps, const std::vector<std::string>& more = {}) {
  return small_run(
      folder, with({"--lr_scheduler.total_steps=12", "--training.steps=" + std::to_string(steps)}, more));
}

/// Trains to step 12 and compares all losses and the final weights and moments with an unharmed run's.
void check_ends_as_unharmed(const fs::path& folder, const std::string& said) {
  static const TempDir unharmed;
  static const int exit = run_titan(part(unharmed.path(), 12)).exit;
  REQUIRE(exit == 0);
  const Run run = run_titan(part(folder, 12));
  INFO(run.err);
  REQUIRE(run.exit == 0);
  CHECK_THAT(run.err, Contains(said));
  CHECK(losses(folder) == losses(unharmed.path()));
  CHECK(read(step(folder, 12) / "rank-0.safetensors") ==
        read(step(unharmed.path(), 12) / "rank-0.safetensors"));
}

/// A file system of its own over a folder; `mounted()` is false where this process may not mount.
class Mount {
 public:
  Mount(const fs::path& over, const std::string& tmpfs_options) : path_(over) {
    fs::create_directories(over);
    mounted_ = ::mount("titan-test", over.c_str(), "tmpfs", 0, tmpfs_options.c_str()) == 0;
    if (!mounted_) warn();
  }
  /// Makes the folder read-only, for all that open something in it from now on.
  explicit Mount(const fs::path& read_only) : path_(read_only) {
    if (::mount(path_.c_str(), path_.c_str(), nullptr, MS_BIND, nullptr) != 0) {
      warn();
      return;
    }
    mounted_ = true;
    if (::mount(nullptr, path_.c_str(), nullptr, MS_BIND | MS_REMOUNT | MS_RDONLY, nullptr) != 0) {
      warn();
      unmount();
    }
  }
  ~Mount() { unmount(); }
  bool mounted() const { return mounted_; }
  void unmount() {
    if (mounted_) ::umount2(path_.c_str(), MNT_DETACH);
    mounted_ = false;
  }

 private:
  static void warn() { WARN("not tested: mounting is not permitted here (" << std::strerror(errno) << ")"); }
  fs::path path_;
  bool mounted_ = false;
};

void fill(const fs::path& file) {
  std::ofstream filler(file, std::ios::binary);
  const std::string block(4096, 'x');
  while (filler.write(block.data(), 4096).flush()) {
  }
}

}  // namespace

TEST_CASE("a damaged newest checkpoint is reported, and the run goes on from the one before, bit for bit") {
  const TempDir folder;
  REQUIRE(run_titan(part(folder.path(), 10)).exit == 0);
  const fs::path newest = step(folder.path(), 10), tensors = newest / "rank-0.safetensors";
  SECTION("a flipped bit among the tensors") {
    flip(tensors, 1000);
    check_ends_as_unharmed(folder.path(), "skipping " + newest.string());
  }
  SECTION("a flipped bit in the header of the tensors") {
    flip(tensors, static_cast<std::streamoff>(fs::file_size(tensors)) - 100);
    check_ends_as_unharmed(folder.path(), "skipping " + newest.string());
  }
  SECTION("a flipped bit in the manifest") {
    flip(newest / "titan.json", 40);
    check_ends_as_unharmed(folder.path(), "titan.json");
  }
  SECTION("a file that ends early") {
    fs::resize_file(tensors, fs::file_size(tensors) / 2);
    check_ends_as_unharmed(folder.path(), "rank-0.safetensors");
  }
  SECTION("an empty manifest") {
    fs::resize_file(newest / "titan.json", 0);
    check_ends_as_unharmed(folder.path(), "titan.json");
  }
  SECTION("a missing file") {
    fs::remove(tensors);
    check_ends_as_unharmed(folder.path(), "rank-0.safetensors");
  }
  SECTION("a missing manifest") {
    fs::remove(newest / "titan.json");
    check_ends_as_unharmed(folder.path(), "titan.json");
  }
}

TEST_CASE("a damaged checkpoint does not push the run's own saves out") {
  const TempDir folder;
  REQUIRE(run_titan(part(folder.path(), 10)).exit == 0);
  flip(step(folder.path(), 10) / "rank-0.safetensors", 1000);
  const Run run = run_titan(part(folder.path(), 7, {"--checkpoint.keep_latest_k=2"}));
  INFO(run.err);
  REQUIRE(run.exit == 0);
  CHECK(valid(step(folder.path(), 5)));
  CHECK(valid(step(folder.path(), 7)));
  check_ends_as_unharmed(folder.path(), "skipping " + step(folder.path(), 10).string());
}

TEST_CASE("a start removes the checkpoints that a killed run had still to remove") {
  const TempDir folder;
  REQUIRE(run_titan(part(folder.path(), 12, {"--checkpoint.keep_latest_k=0"})).exit == 0);
  const std::vector<std::string> keep_two{"--checkpoint.keep_latest_k=2"};
  CHECK(run_titan(part(folder.path(), 12, with(keep_two, {"--checkpoint.load_only"}))).exit == 0);
  CHECK(fs::exists(step(folder.path(), 5)));
  CHECK(run_titan(part(folder.path(), 12, keep_two)).exit == 0);
  CHECK(!fs::exists(step(folder.path(), 5)));
  CHECK(valid(step(folder.path(), 10)));
  CHECK(valid(step(folder.path(), 12)));
}

TEST_CASE("a disk that fills up while training costs saves, not the run or the last good checkpoint") {
  const TempDir folder;
  Mount disk(folder / "out", "size=3m");
  if (!disk.mounted()) return;
  const auto arguments = part(folder.path(), 12);
  REQUIRE(run_titan(part(folder.path(), 5)).exit == 0);
  fill(folder / "out/filler");
  const Run run = run_titan(arguments);
  INFO(run.err);
  CHECK(run.exit == 1);  // the last save failed
  CHECK_THAT(run.err, Contains("The checkpoint of step 10 was not saved") && Contains("step: 12 ") &&
                          Contains("Metrics are incomplete"));
  CHECK_THAT(run.err, Contains("titan: ") && Contains("free some space there"));
  CHECK(valid(step(folder.path(), 5)));
  CHECK(!fs::exists(step(folder.path(), 10)));
  for (const nlohmann::json& line : metrics(folder.path())) CHECK(line.is_object());  // whole lines
  fs::remove(folder / "out/filler");
  check_ends_as_unharmed(folder.path(), "Training starts at step 6");
}

TEST_CASE("data that does not fit on the disk is one error, and is prepared once there is room") {
  const TempDir folder;
  auto arguments = part(folder.path(), 12, {"--training.data_cache=" + (folder / "cache").string()});
  {
    std::ofstream large(folder / "text.txt", std::ios::app);
    for (int i = 0; i < 40'000; ++i) large << "line " << i << " of more than a megabyte of text.\n";
  }
  Mount disk(folder / "cache", "size=1m");
  if (!disk.mounted()) return;
  const Run full = run_titan(arguments);
  INFO(full.err);
  CHECK(full.exit == 1);
  CHECK_THAT(full.err, Contains("No space left on device") && Contains((folder / "cache").string()));
  CHECK(!fs::exists(folder / "out/checkpoint"));
  disk.unmount();
  const Run roomy = run_titan(arguments);
  INFO(roomy.err);
  CHECK(roomy.exit == 0);
}

TEST_CASE("a folder that becomes read-only while training costs saves, not the run") {
  const TempDir folder;
  const auto arguments = part(folder.path(), 12,
                              {"--training.steps=100000", "--checkpoint.interval=50",
                               "--metrics.log_freq=100", "--validation.enable=false"});
  Running run(arguments);
  REQUIRE(run.wait_for("step-50:", 30));
  Mount frozen(folder / "out/checkpoint");
  if (!frozen.mounted()) return;
  REQUIRE(run.wait_for("was not saved", 30));
  run.signal(SIGTERM);
  const Run stopped = run.wait();
  INFO(stopped.err);
  CHECK(stopped.exit == 1);  // the save that the signal asked for failed
  CHECK_THAT(stopped.err, Contains("Read-only file system") && Contains("Training goes on"));
  frozen.unmount();
  const Run list = run_titan({"checkpoint", "list", (folder / "out/checkpoint").string()});
  CHECK_THAT(list.out, Contains("complete") && !Contains("damaged"));
  const Run again = run_titan(with(arguments, {"--training.steps=60"}));
  CHECK(again.exit == 0);
}

TEST_CASE(
    "a loss that is not finite stops the run: one message, no update, no save, the earlier ones intact") {
  const std::string batch = GENERATE("1", "4");  // 4 micro-batches, or one
  const std::string type = GENERATE("float32", "bfloat16");
  const TempDir folder;
  const std::vector<std::string> overrides{"--training.local_batch_size=" + batch,
                                           "--training.mixed_precision_param=" + type,
                                           "--lr_scheduler.warmup_steps=0",
                                           "--validation.enable=false",
                                           "--checkpoint.interval=1",
                                           "--checkpoint.keep_latest_k=0"};
  REQUIRE(run_titan(part(folder.path(), 2, overrides)).exit == 0);
  const std::string before = read(step(folder.path(), 2) / "rank-0.safetensors");
  // One step at this rate makes weights whose products overflow.
  const Run run = run_titan(part(folder.path(), 12, with(overrides, {"--optimizer.lr=1e30"})));
  INFO(run.err);
  CHECK(run.exit == 1);
  CHECK_THAT(run.err, Contains("step 4: loss") && Contains("not both finite") &&
                          Contains("nothing of this step was saved"));
  CHECK(run.err.find("not both finite") == run.err.rfind("not both finite"));
  CHECK(!fs::exists(step(folder.path(), 4)));
  CHECK(!fs::exists(step(folder.path(), 12)));
  CHECK(read(step(folder.path(), 2) / "rank-0.safetensors") == before);
  CHECK(valid(step(folder.path(), 2)));
  // The way back that the message names, once the steps after it are moved away.
  fs::rename(step(folder.path(), 3), folder / "step-3");
  CHECK(run_titan(part(folder.path(), 5, with(overrides, {"--checkpoint.load_step=2"}))).exit == 0);
}
