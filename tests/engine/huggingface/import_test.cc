// Folders that transformers saved (scripts/goldens/make_hf_goldens.py), whole and spoilt.
#include "engine/huggingface/import.h"

#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>

#include "engine/checkpoint/safetensors.h"
#include "engine/huggingface/names.h"
#include "tests/engine/huggingface/folders.h"
#include "tests/support/temp_dir.h"

using namespace titan;
using Catch::Contains;
using titan::test::golden_folder;
using titan::test::TempDir;
namespace fs = std::filesystem;

namespace {

std::vector<float> values(const ForeignModel& model, const ParameterSpec& p) {
  std::vector<float> all(static_cast<std::size_t>(p.rows * p.cols));
  model.read(p.name, 0, all);
  return all;
}

/// A copy of a golden folder to spoil.
struct Spoilt {
  explicit Spoilt(const std::string& name) : path(temp / name) { fs::copy(golden_folder(name), path); }
  TempDir temp;
  fs::path path;

  void edit_config(const char* key, const nlohmann::json& value) const {
    nlohmann::json config = nlohmann::json::parse(read_text(path / "config.json"));
    config[key] = value;
    std::ofstream(path / "config.json") << config;
  }
  std::string refusal() const {
    try {
      const ForeignModel model(path);
    } catch (const UserError& error) {
      return error.what();
    }
    return "";
  }
};

/// Writes `tensors` of zeros as the only weights of `folder`.
void put_weights(const fs::path& folder, std::vector<TensorEntry> tensors) {
  for (const auto& file : fs::directory_iterator(folder))
    if (file.path().filename().string().starts_with("model")) fs::remove(file);
  SafetensorsWriter writer(folder / "model.safetensors", std::move(tensors), {});
  for (const TensorEntry& t : writer.tensors())
    writer.write(std::vector<std::byte>(static_cast<std::size_t>(t.bytes)));
  writer.finish();
}

}  // namespace

TEST_CASE("weights are the stored ones, in shards and in one file", "[huggingface]") {
  for (const char* name : {"sharded", "scaled", "tied"}) {
    const ForeignModel model(golden_folder(name));
    std::size_t found = 0;
    for (const auto& file : fs::directory_iterator(golden_folder(name))) {
      if (file.path().extension() != ".safetensors") continue;
      const SafetensorsReader reader(file.path());
      for (const ParameterSpec& p : parameters(model.config().model)) {
        const TensorEntry* tensor = reader.find(p.name);
        if (tensor == nullptr) continue;
        std::vector<float> stored(static_cast<std::size_t>(p.rows * p.cols));
        decode(tensor->type, reader.bytes(*tensor).data(), stored);
        CHECK(values(model, p) == stored);
        ++found;
      }
    }
    CHECK(found == parameters(model.config().model).size());
  }
}

TEST_CASE("TorchTitan's names give the same weights, q and k in their rows", "[huggingface]") {
  const ForeignModel ours(golden_folder("scaled")), theirs(golden_folder("torchtitan"));
  CHECK(ours.config().model == theirs.config().model);
  for (const ParameterSpec& p : parameters(ours.config().model)) {
    INFO(p.name);
    CHECK(values(ours, p) == values(theirs, p));
  }
}

TEST_CASE("Meta's params.json stands in for config.json", "[huggingface]") {
  const Spoilt copy("torchtitan");
  fs::remove(copy.path / "config.json");
  std::ofstream(copy.path / "params.json")
      << R"({"dim": 16, "n_layers": 2, "n_heads": 4, "n_kv_heads": 2, "head_dim": 12, "vocab_size": -1,
             "multiple_of": 32, "ffn_dim_multiplier": 0.5, "norm_eps": 1e-5, "rope_theta": 500000.0})";
  const ForeignModel model(copy.path);
  CHECK(model.config().model.vocab_size == 260);
  CHECK(model.config().model.ffn_dim == 32);
  CHECK(model.config().model.rope_theta == 500000);
}

TEST_CASE("any range and any piece of a parameter can be read", "[huggingface]") {
  const ForeignModel model(golden_folder("torchtitan"));
  const std::string name = "model.layers.1.self_attn.q_proj.weight";  // its rows are interleaved there
  std::vector<float> whole(48 * 16), part(100), box(5 * 3);
  model.read(name, 0, whole);
  model.read(name, 133, part);
  CHECK(part == std::vector<float>(whole.begin() + 133, whole.begin() + 233));
  const WantedTensor wanted{box_piece(name, {48, 16}, {{7, 2}, {5, 3}}), StateKind::parameter, box.data()};
  model.load(std::span(&wanted, 1));
  for (std::size_t r = 0; r < 5; ++r)
    for (std::size_t c = 0; c < 3; ++c) CHECK(box[r * 3 + c] == whole[(7 + r) * 16 + 2 + c]);
}

TEST_CASE("names and rows of others", "[huggingface]") {
  CHECK(meta_name("model.layers.17.mlp.up_proj.weight") == "layers.17.feed_forward.w3.weight");
  CHECK(meta_name("lm_head.weight") == "output.weight");
  CHECK(meta_name("model.layers.3.unknown") == "model.layers.3.unknown");
  const std::vector<std::int64_t> rows{0, 2, 4, 1, 3, 5, 6, 8, 10, 7, 9, 11};
  for (std::size_t i = 0; i < rows.size(); ++i) CHECK(meta_row(static_cast<std::int64_t>(i), 6) == rows[i]);
}

TEST_CASE("tensors that are missing, extra, misshapen or of another type are named", "[huggingface]") {
  Spoilt copy("tied");
  std::vector<TensorEntry> tensors;
  const ForeignModel model(copy.path);
  for (const ParameterSpec& p : parameters(model.config().model))
    tensors.push_back({p.name, StoredType::bf16, p.file_shape(), 0, 0});

  std::vector<TensorEntry> changed = tensors;
  changed.pop_back();
  put_weights(copy.path, changed);
  CHECK_THAT(copy.refusal(), Contains("model.norm.weight") && Contains("missing"));

  changed = tensors;
  changed.push_back({"model.layers.2.mlp.up_proj.weight", StoredType::bf16, {32, 16}, 0, 0});
  put_weights(copy.path, changed);
  CHECK_THAT(copy.refusal(), Contains("model.layers.2.mlp.up_proj.weight") && Contains("no part"));

  changed = tensors;
  changed[2].shape = {16, 17};
  put_weights(copy.path, changed);
  CHECK_THAT(copy.refusal(), Contains("[16, 17]") && Contains("[16, 16]"));

  changed = tensors;
  changed[2].type = StoredType::u8;
  put_weights(copy.path, changed);
  CHECK_THAT(copy.refusal(), Contains("U8") && Contains("unquantized"));

  changed = tensors;
  changed.push_back({"model.layers.0.self_attn.rotary_emb.inv_freq", StoredType::f32, {4}, 0, 0});
  changed.push_back({"lm_head.weight", StoredType::bf16, {260, 16}, 0, 0});  // equal to the table: all zeros
  put_weights(copy.path, changed);
  CHECK(copy.refusal().empty());
}

TEST_CASE("a head that differs from the table it is said to share is refused", "[huggingface]") {
  const Spoilt copy("sharded");
  copy.edit_config("tie_word_embeddings", true);
  CHECK_THAT(copy.refusal(), Contains("lm_head.weight") && Contains("tie_word_embeddings"));
}

TEST_CASE("an incomplete folder is refused", "[huggingface]") {
  const Spoilt copy("sharded");
  fs::remove(copy.path / "model-00002-of-00003.safetensors");
  CHECK_THAT(copy.refusal(), Contains("model-00002-of-00003.safetensors") && Contains("missing"));
  fs::copy(copy.path / "model-00001-of-00003.safetensors", copy.path / "model-00002-of-00003.safetensors");
  CHECK_THAT(copy.refusal(), Contains("in two files"));
}

TEST_CASE("formats that are not read come with a pointer to what converts them", "[huggingface]") {
  const auto refusal_with = [](const char* file) {
    const Spoilt copy("tied");
    fs::remove(copy.path / "model.safetensors");
    std::ofstream(copy.path / file) << "x";
    return copy.refusal();
  };
  CHECK_THAT(refusal_with("pytorch_model.bin"), Contains("safe_serialization=True"));
  CHECK_THAT(refusal_with("consolidated.00.pth"), Contains("convert_llama_weights_to_hf"));
  CHECK_THAT(refusal_with("__0_0.distcp"), Contains("dcp_to_torch"));
  CHECK_THAT(refusal_with(".metadata"), Contains("DCP"));
  CHECK_THAT(refusal_with("notes.txt"), Contains("no *.safetensors"));
  const Spoilt no_config("tied");
  fs::remove(no_config.path / "config.json");
  CHECK_THAT(no_config.refusal(), Contains("config.json"));
  CHECK_THROWS_WITH(ForeignModel("/nowhere"), Contains("no such folder"));
}
