#include "engine/checkpoint/catalog.h"
#include "tests/engine/checkpoint/fixture.h"
#include "tests/support/temp_dir.h"

#include <catch2/catch.hpp>

#include <fstream>

using namespace titan;
using namespace titan::test;
using Catch::Contains;
namespace fs = std::filesystem;

namespace {

void flip_last_byte(const fs::path& path) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(-1, std::ios::end);
  const char flipped = static_cast<char>(file.get() ^ 1);
  file.seekp(-1, std::ios::end);
  file.put(flipped);
}

struct Outcome {
  std::optional<Restored> restored;
  int64_t wrong = 0;
};

Outcome restore(const fs::path& folder, int64_t load_step, int64_t expected_step) {
  SoloCoordinator solo;
  RankState state = whole_state();
  auto restored = restore_checkpoint(folder, load_step, state.wanted(), solo);
  return {std::move(restored), state.wrong(expected_step)};
}

}  // namespace

TEST_CASE("restore takes the newest checkpoint, or load_step") {
  const TempDir folder;
  for (const int64_t step : {2, 10, 9}) save_small(folder.path(), step);
  const Outcome newest = restore(folder.path(), -1, 10);
  CHECK(newest.restored->path == folder / "step-10");
  CHECK(newest.wrong == 0);
  const Outcome chosen = restore(folder.path(), 2, 2);
  CHECK(chosen.restored->manifest.run.step == 2);
  CHECK(chosen.wrong == 0);
  CHECK_THAT(user_error([&] { restore(folder.path(), 3, 3); }),
             Contains("load_step = 3") && Contains("[2, 9, 10]"));
}

TEST_CASE("there may be nothing to restore") {
  const TempDir folder;
  CHECK_FALSE(restore(folder.path(), -1, 0).restored.has_value());
  CHECK_FALSE(restore(folder / "absent", -1, 0).restored.has_value());
  fs::create_directory(folder / "step-5.tmp");
  CHECK_FALSE(restore(folder.path(), -1, 0).restored.has_value());
}

TEST_CASE("a damaged newest checkpoint is skipped, on every rank") {
  const TempDir folder;
  save_small(folder.path(), 1);
  save_small(folder.path(), 2);
  flip_last_byte(folder / "step-2/rank-0.safetensors");
  SECTION("one rank") {
    const Outcome outcome = restore(folder.path(), -1, 1);
    CHECK(outcome.restored->path == folder / "step-1");
    CHECK(outcome.wrong == 0);
  }
  SECTION("three ranks, of which one reads the damaged block") {
    std::vector<int64_t> wrong(3, -1);
    ThreadGroup(3).run([&](Coordinator& coordinator) {
      const auto rank = static_cast<size_t>(coordinator.rank());
      const Parameter parameter = small_model()[rank + 1];
      RankState state({whole_piece(parameter.name, parameter.shape)});
      restore_checkpoint(folder.path(), -1, state.wanted(), coordinator);
      wrong[rank] = state.wrong(1);
    });
    CHECK(wrong == std::vector<int64_t>(3, 0));
  }
  SECTION("load_step does not fall back") {
    CHECK_THAT(user_error([&] { restore(folder.path(), 2, 2); }), Contains("step-2") && Contains("block"));
  }
}

TEST_CASE("when all checkpoints are damaged a run does not silently start over") {
  const TempDir folder;
  save_small(folder.path(), 1);
  SECTION("content") { flip_last_byte(folder / "step-1/rank-0.safetensors"); }
  SECTION("manifest") {
    flip_last_byte(folder / "step-1/titan.json"), fs::resize_file(folder / "step-1/titan.json", 40);
  }
  CHECK_THAT(user_error([&] { restore(folder.path(), -1, 1); }),
             Contains(folder.path().string()) && Contains("damaged"));
}

TEST_CASE("a model that does not fit is not a reason to try older checkpoints") {
  const TempDir folder;
  save_small(folder.path(), 1);
  RankState state({whole_piece("model.norm.weight", {99})});
  SoloCoordinator solo;
  CHECK_THAT(user_error([&] { restore_checkpoint(folder.path(), -1, state.wanted(), solo); }),
             Contains("another model") && Contains("[99]"));
}
