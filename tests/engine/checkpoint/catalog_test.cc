#include "engine/checkpoint/catalog.h"
#include "tests/engine/checkpoint/fixture.h"
#include "tests/support/temp_dir.h"

#include <catch2/catch.hpp>

using namespace titan;
using namespace titan::test;
using Catch::Contains;
namespace fs = std::filesystem;

namespace {

std::vector<int64_t> complete_steps(const fs::path& folder) {
  std::vector<int64_t> steps;
  for (const CheckpointEntry& entry : find_checkpoints(folder))
    if (entry.status == CheckpointStatus::complete) steps.push_back(entry.step);
  return steps;
}

}  // namespace

TEST_CASE("checkpoints are found in order of step, whatever else lies there") {
  const TempDir folder;
  for (const int64_t step : {100, 9, 20}) save_small(folder.path(), step);
  for (const char* name :
       {"step-", "step-x", "step-7x", "step--3", "other", "step-30.tmp", "step-99999999999999999999"})
    fs::create_directory(folder / name);
  fs::create_directory(folder / "step-50");
  fs::resize_file(folder / "step-20/rank-0.safetensors", 100);

  const auto entries = find_checkpoints(folder.path());
  REQUIRE(entries.size() == 5);
  CHECK(entries[0].step == 9);
  CHECK(entries[0].status == CheckpointStatus::complete);
  CHECK(entries[1].status == CheckpointStatus::damaged);
  CHECK_THAT(entries[1].problem, Contains("step-20/rank-0.safetensors") && Contains("100 bytes"));
  CHECK(entries[2].status == CheckpointStatus::incomplete);
  CHECK_THAT(entries[3].problem, Contains("step-50") && Contains("titan.json"));
  CHECK(latest_checkpoint(folder.path())->step == 100);
  CHECK(find_checkpoints(folder / "absent").empty());
}

TEST_CASE("keep_latest_k keeps the newest") {
  const TempDir folder;
  for (int64_t step = 1; step <= 5; ++step) save_small(folder.path(), step);
  keep_latest(folder.path(), 0, 5);
  CHECK(complete_steps(folder.path()).size() == 5);
  keep_latest(folder.path(), 2, 5);
  CHECK(complete_steps(folder.path()) == std::vector<int64_t>{4, 5});
  CHECK(std::distance(fs::directory_iterator(folder.path()), {}) == 2);
}

TEST_CASE("damaged checkpoints neither count nor go") {
  const TempDir folder;
  for (int64_t step = 1; step <= 4; ++step) save_small(folder.path(), step);
  for (const char* name : {"step-3", "step-4"}) fs::remove(folder / name / "rank-0.safetensors");
  keep_latest(folder.path(), 1, 4);
  CHECK(complete_steps(folder.path()) == std::vector<int64_t>{2});
  CHECK(find_checkpoints(folder.path()).size() == 3);
}

TEST_CASE("later steps than the one just saved neither count nor go") {
  const TempDir folder;
  for (const int64_t step : {1, 2, 3, 8, 9}) save_small(folder.path(), step);
  keep_latest(folder.path(), 2, 3);
  CHECK(complete_steps(folder.path()) == std::vector<int64_t>{2, 3, 8, 9});
}

TEST_CASE("a checkpoint that cannot be removed does not stop the run") {
  const TempDir folder;
  for (int64_t step = 1; step <= 3; ++step) save_small(folder.path(), step);
  keep_latest(folder.path(), 1, 3, [&](std::string_view operation, const fs::path& path) {
    if (path.filename() == "step-1") throw_disk_error(operation, path, EACCES);
  });
  CHECK(complete_steps(folder.path()) == std::vector<int64_t>{1, 3});
}

TEST_CASE("leftovers are removed, checkpoints are not") {
  const TempDir folder;
  save_small(folder.path(), 1);
  fs::create_directories(folder / "step-2.tmp/inside");
  fs::create_directory(folder / "mine.tmp");
  remove_leftovers(folder.path());
  CHECK_FALSE(fs::exists(folder / "step-2.tmp"));
  CHECK(fs::exists(folder / "mine.tmp"));
  CHECK(load_small(folder / "step-1", 1) == 0);
}
