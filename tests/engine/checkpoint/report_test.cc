#include "engine/checkpoint/report.h"
#include "tests/engine/checkpoint/fixture.h"
#include "tests/support/temp_dir.h"

#include <catch2/catch.hpp>

#include <fstream>

using namespace titan;
using namespace titan::test;
using Catch::Contains;

TEST_CASE("list shows every checkpoint and its state") {
  const TempDir folder;
  save_small(folder.path(), 1000);
  save_small(folder.path(), 2000);
  std::filesystem::remove(folder / "step-2000/rank-0.safetensors");
  std::filesystem::create_directory(folder / "step-3000.tmp");
  const std::string text = list_checkpoints(folder.path());
  CHECK_THAT(text, Contains("1000  complete") && Contains("512,000") && Contains("dp 1"));
  CHECK_THAT(text, Contains("2000  damaged") && Contains("rank-0.safetensors"));
  CHECK_THAT(text, Contains("3000  incomplete"));
  CHECK_THAT(user_error([&] { list_checkpoints(folder / "absent"); }), Contains("absent"));
}

TEST_CASE("list of a checkpoint says what it is") {
  const TempDir folder;
  const auto path = save_small(folder.path(), 7).path;
  CHECK_THAT(
      user_error([&] { list_checkpoints(path); }),
      Contains(path.string() + " is a checkpoint") && Contains("titan checkpoint inspect " + path.string()));
}

TEST_CASE("inspect shows the run, the tensors and the recipe") {
  const TempDir folder;
  const std::string text = inspect_checkpoint(save_small(folder.path(), 1234567).path);
  CHECK_THAT(text, Contains("1,234,567") && Contains("model and optimizer") && Contains("steps = 10"));
  CHECK_THAT(text, Contains("model.norm.weight.exp_avg_sq") && Contains("[37, 16]") && Contains("F32"));
  CHECK_THAT(user_error([&] { inspect_checkpoint(folder / "step-9"); }), Contains("step-9"));
}

TEST_CASE("verify finds every damaged block and names its tensors") {
  const TempDir folder;
  const auto path = save_small(folder.path(), 1).path;
  const VerifyReport good = verify_checkpoint(path);
  CHECK(good.ok());
  CHECK(good.blocks > 5);
  CHECK_THAT(to_string(good), Contains("ok: 1 files"));

  const auto file_path = path / "rank-0.safetensors";
  const auto size = static_cast<std::streamoff>(std::filesystem::file_size(file_path));
  std::fstream file(file_path, std::ios::in | std::ios::out | std::ios::binary);
  for (const std::streamoff at : {size - 1, size - 3000}) file.seekp(at).put('!');
  file.close();
  const VerifyReport bad = verify_checkpoint(path);
  REQUIRE(bad.problems.size() == 2);
  CHECK_THAT(bad.problems[1],
             Contains("rank-0.safetensors") && Contains("block") && Contains("model.norm.weight.exp_avg_sq"));
}
