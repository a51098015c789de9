#include "engine/checkpoint/catalog.h"
#include "engine/checkpoint/load.h"
#include "engine/checkpoint/safetensors.h"
#include "engine/checkpoint/save.h"
#include "kernels/base/error.h"
#include "tests/engine/checkpoint/fixture.h"
#include "tests/support/temp_dir.h"

#include <catch2/catch.hpp>

#include <unistd.h>

#include <cmath>

using namespace titan;
using namespace titan::test;
using Catch::Contains;

namespace {

SaveOptions model_only(StoredType type) {
  SaveOptions options;
  options.model_only = true;
  options.type = type;
  return options;
}

}  // namespace

TEST_CASE("a checkpoint gives back the state bit for bit, and the run's state") {
  const TempDir folder;
  const SaveResult saved = save_small(folder.path(), 12);
  CHECK(saved.path == folder / "step-12");
  RankState state = whole_state();
  const Manifest manifest = load_checkpoint(saved.path, state.wanted());
  CHECK(state.wrong(12) == 0);
  CHECK(manifest.run.step == 12);
  CHECK(manifest.run.samples_consumed == 96);
  CHECK(manifest.run.tokens_seen == 12 * 8 * 64);
  CHECK(manifest.run.clipped_steps == 3);
  CHECK(manifest.run.global_batch_size == 8);
  CHECK(manifest.run.recipe == run_at(12).recipe);
  CHECK(manifest.run.model_config == run_at(12).model_config);
  CHECK(manifest.run.data == "corpus");
  CHECK_FALSE(manifest.model_only);
  CHECK(saved.bytes == static_cast<int64_t>(std::filesystem::file_size(saved.path / "rank-0.safetensors")));
}

TEST_CASE("the files are plain safetensors under the parameters' names") {
  const TempDir folder;
  const SaveResult saved = save_small(folder.path(), 1);
  const SafetensorsReader reader(saved.path / "rank-0.safetensors");
  CHECK(reader.tensors().size() == 3 * small_model().size());
  const TensorEntry* moment = reader.find("model.embed_tokens.weight.exp_avg_sq");
  REQUIRE(moment != nullptr);
  CHECK(moment->shape == std::vector<int64_t>{37, 16});
}

TEST_CASE("model-only checkpoints load in each export_dtype") {
  const TempDir folder;
  const auto [type, tolerance] = GENERATE(table<StoredType, float>(
      {{StoredType::f32, 0.0f}, {StoredType::bf16, 1.0f / 256}, {StoredType::f16, 1.0f / 2048}}));
  const SaveResult saved = save_small(folder.path(), 3, model_only(type));
  RankState state = whole_state(false), expected = whole_state(false);
  expected.fill(3);
  CHECK(load_checkpoint(saved.path, state.wanted()).model_only);
  for (size_t e = 0; e < state.entries.size(); ++e)
    for (size_t i = 0; i < state.entries[e].data.size(); ++i)
      REQUIRE(std::abs(state.entries[e].data[i] - expected.entries[e].data[i]) <=
              tolerance * std::abs(expected.entries[e].data[i]));
}

TEST_CASE("a model-only checkpoint has no optimizer state to give") {
  const TempDir folder;
  const SaveResult saved = save_small(folder.path(), 3, model_only(StoredType::f32));
  RankState state = whole_state();
  CHECK_THAT(user_error([&] { load_checkpoint(saved.path, state.wanted()); }),
             Contains("step-3") && Contains("exclude_from_loading"));

  LoadOptions options;
  options.parts = parts_without(std::vector<std::string>{"optimizer"});
  load_checkpoint(saved.path, state.wanted(), options);
  for (const auto& entry : state.entries)
    if (entry.kind != StateKind::parameter) CHECK(entry.data == std::vector<float>(entry.data.size(), 0.0f));
}

TEST_CASE("exclude_from_loading takes TorchTitan's names") {
  const LoadParts parts = parts_without(std::vector<std::string>{"dataloader", "lr_scheduler"});
  CHECK(parts.optimizer);
  CHECK_FALSE(parts.dataloader);
  CHECK_FALSE(parts.lr_scheduler);
  CHECK(parts.train_state);
  CHECK_THROWS_WITH(parts_without(std::vector<std::string>{"model"}), Contains("cannot be excluded"));
  CHECK_THROWS_WITH(parts_without(std::vector<std::string>{"optimiser"}), Contains("optimiser"));
}

TEST_CASE("saving a step again replaces it and leaves nothing else") {
  const TempDir folder;
  RankState state = whole_state();
  SoloCoordinator solo;
  save_small(folder.path(), 4);
  state.fill(77);
  save_checkpoint(folder.path(), {run_at(4), state.tensors()}, solo);
  CHECK(load_small(folder / "step-4", 77) == 0);
  CHECK(find_checkpoints(folder.path()).size() == 1);
}

TEST_CASE("another model's checkpoint is refused with both shapes") {
  const TempDir folder;
  const SaveResult saved = save_small(folder.path(), 1);
  const auto load = [&](Piece piece, std::vector<std::string> names = {}) {
    std::vector<float> data(static_cast<size_t>(piece.elements()));
    const std::vector<WantedTensor> wanted{{piece, StateKind::parameter, data.data()}};
    LoadOptions options;
    options.model_parameters = std::move(names);
    return user_error([&] { load_checkpoint(saved.path, wanted, options); });
  };
  CHECK_THAT(load(whole_piece("model.norm.weight", {32})),
             Contains("step-1") && Contains("model.norm.weight") && Contains("[16]") && Contains("[32]"));
  CHECK_THAT(load(whole_piece("model.layers.1.mlp.up_proj.weight", {24, 16})),
             Contains("model.layers.1.mlp.up_proj.weight") && Contains("has no"));
  CHECK_THAT(load(whole_piece("model.norm.weight", {16}), {"model.norm.weight"}), Contains("has not"));
  CHECK(load(whole_piece("model.norm.weight", {16})).empty());
}

TEST_CASE("a full disk predicted, a read-only folder and a bad place are user errors") {
  const TempDir folder;
  SoloCoordinator solo;
  SECTION("too little space is known before a byte is written") {
    const float unused = 0;
    const std::vector<StateTensor> tensors{
        {whole_piece("w", {int64_t{1} << 26, int64_t{1} << 26}), StateKind::parameter, &unused}};
    CHECK_THAT(user_error([&] {
                 save_checkpoint(folder.path(), {run_at(1), tensors}, solo);
               }),
               Contains(folder.path().string()) && Contains("MiB are free"));
    CHECK(std::filesystem::is_empty(folder.path()));
  }
  SECTION("a file where the folder should be") {
    CHECK_THAT(user_error([&] { save_small("/dev/null", 1); }), Contains("/dev/null"));
  }
  if (geteuid() != 0) {
    SECTION("read-only") {
      std::filesystem::permissions(folder.path(),
                                   std::filesystem::perms::owner_read | std::filesystem::perms::owner_exec);
      CHECK_THAT(user_error([&] { save_small(folder.path(), 1); }),
                 Contains("step-1.tmp") && Contains("Permission denied"));
      std::filesystem::permissions(folder.path(), std::filesystem::perms::owner_all);
    }
  }
}
