#include "tests/engine/checkpoint/fixture.h"
#include "tests/support/temp_dir.h"

#include <catch2/catch.hpp>

using namespace titan;
using namespace titan::test;
using Catch::Contains;

namespace {

void save_layout(const std::filesystem::path& folder, const std::vector<std::vector<Piece>>& layout,
                 int64_t step) {
  SaveOptions options;
  options.block_bytes = 256;
  ThreadGroup(static_cast<int>(layout.size())).run([&](Coordinator& coordinator) {
    RankState state(layout[static_cast<size_t>(coordinator.rank())]);
    state.fill(step);
    save_checkpoint(folder, {run_at(step), state.tensors()}, coordinator, options);
  });
}

}  // namespace

TEST_CASE("any layout loads a checkpoint of any other, bit for bit") {
  const TempDir folder;
  std::mt19937 random(3);
  for (int64_t step = 1; step <= 12; ++step) {
    const int from = 1 + static_cast<int>(random() % 6), to = 1 + static_cast<int>(random() % 6);
    CAPTURE(step, from, to);
    save_layout(folder.path(), random_layout(from, random), step);
    const auto layout = random_layout(to, random);
    std::vector<int64_t> wrong(layout.size(), -1);
    ThreadGroup(to).run([&](Coordinator& coordinator) {
      const auto rank = static_cast<size_t>(coordinator.rank());
      RankState state(layout[rank]);
      restore_checkpoint(folder.path(), -1, state.wanted(), coordinator);
      wrong[rank] = state.wrong(step);
    });
    REQUIRE(wrong == std::vector<int64_t>(layout.size(), 0));
  }
}

TEST_CASE("one failing rank fails the save on all and leaves nothing") {
  const TempDir folder;
  std::mt19937 random(4);
  const auto layout = random_layout(4, random);
  std::vector<std::string> messages(4);
  ThreadGroup(4).run([&](Coordinator& coordinator) {
    const auto rank = static_cast<size_t>(coordinator.rank());
    RankState state(layout[rank]);
    SaveOptions options;
    options.hook = [&](std::string_view operation, const std::filesystem::path& path) {
      if (rank == 2 && operation == "write") throw_disk_error(operation, path, ENOSPC);
    };
    messages[rank] = user_error([&] {
      save_checkpoint(folder.path(), {run_at(1), state.tensors()}, coordinator, options);
    });
  });
  for (const std::string& message : messages)
    CHECK_THAT(message, Contains("rank-2.safetensors") && Contains("No space left"));
  CHECK_THAT(messages[0], Contains("rank 2:"));
  CHECK(std::filesystem::is_empty(folder.path()));
}

TEST_CASE("when one rank's file is missing, no layout invents the elements") {
  const TempDir folder;
  const std::vector<int64_t> shape{8, 4};
  save_layout(folder.path(), {{box_piece("w", shape, {{0, 0}, {4, 4}})}}, 1);
  RankState state({whole_piece("w", shape)});
  CHECK_THAT(user_error([&] { load_checkpoint(folder / "step-1", state.wanted()); }),
             Contains("element [4, 0]"));
}
