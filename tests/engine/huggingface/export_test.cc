// What is written is what was read, byte for byte in the same type.
#include "engine/huggingface/export.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>

#include "engine/checkpoint/safetensors.h"
#include "engine/huggingface/import.h"
#include "tests/engine/huggingface/folders.h"
#include "tests/support/temp_dir.h"

using namespace titan;
using Catch::Contains;
using titan::test::golden_folder;
using titan::test::TempDir;
using titan::test::tensors_of;
namespace fs = std::filesystem;

namespace {

void write(const fs::path& folder, const ForeignModel& model, const ExportOptions& options) {
  write_foreign_model(
      folder, model.config().model,
      {{"config.json",
        config_json(model.config().model, {.dtype = "x", .max_positions = 256, .bos = {}, .eos = {}})}},
      [&](const ParameterSpec& p, std::span<float> values) { model.read(p.name, 0, values); }, options);
}

}  // namespace

TEST_CASE("import and export in the same type give the same bytes", "[huggingface]") {
  const TempDir temp;
  for (const auto& [name, type] :
       {std::pair{"sharded", StoredType::f32}, {"scaled", StoredType::bf16}, {"tied", StoredType::f16}}) {
    const ForeignModel model(golden_folder(name));
    write(temp / name, model, {.type = type});
    CHECK(tensors_of(temp / name) == tensors_of(golden_folder(name)));
    CHECK(ForeignModel(temp / name).config().model == model.config().model);
    CHECK_FALSE(fs::exists(temp / (std::string(name) + ".tmp")));
  }
}

TEST_CASE("shards are as large as allowed and the index finds all", "[huggingface]") {
  const TempDir temp;
  const ForeignModel model(golden_folder("sharded"));
  write(temp / "out", model, {.type = StoredType::f32, .max_shard_bytes = 20000});
  CHECK(tensors_of(temp / "out") == tensors_of(golden_folder("sharded")));
  CHECK(fs::exists(temp / "out/model.safetensors.index.json"));
  int shards = 0;
  for (const auto& file : fs::directory_iterator(temp / "out"))
    if (file.path().extension() == ".safetensors") {
      ++shards;
      CHECK(SafetensorsReader(file.path()).tensors().size() > 0);
      CHECK(fs::file_size(file) < 22000);
    }
  CHECK(shards > 2);
  const ForeignModel again(temp / "out");
  CHECK(again.config().model == model.config().model);
}

TEST_CASE("an existing folder is kept unless it is to be replaced", "[huggingface]") {
  const TempDir temp;
  const ForeignModel model(golden_folder("tied"));
  write(temp / "out", model, {});
  CHECK_THROWS_WITH(write(temp / "out", model, {}), Contains("exists"));
  write(temp / "out", model, {.type = StoredType::bf16, .replace = true});
  CHECK(SafetensorsReader(temp / "out/model.safetensors").tensors().front().type == StoredType::bf16);
  CHECK_FALSE(fs::exists(temp / "out.tmp"));
}

TEST_CASE("a failed export leaves nothing behind", "[huggingface]") {
  const TempDir temp;
  const ForeignModel model(golden_folder("tied"));
  ExportOptions options;
  options.hook = [](std::string_view operation, const fs::path& path) {
    if (operation == "write" && path.filename() == "config.json") throw UserError("disk full");
  };
  CHECK_THROWS_WITH(write(temp / "out", model, options), Contains("disk full"));
  CHECK_FALSE(fs::exists(temp / "out"));
  CHECK_FALSE(fs::exists(temp / "out.tmp"));
}
