// Hugging Face folders from the outside, against what transformers gave for them
// (scripts/goldens/make_hf_goldens.py).
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>

#include "engine/checkpoint/safetensors.h"
#include "tests/app/titan/run_titan.h"
#include "tests/engine/huggingface/folders.h"
#include "tests/support/temp_dir.h"

using namespace titan;
using namespace titan::test;
using Catch::Contains;
namespace fs = std::filesystem;

namespace {

nlohmann::json facts() { return nlohmann::json::parse(std::ifstream(golden_folder("facts.json"))); }

Run succeed(const std::vector<std::string>& arguments) {
  Run run = run_titan(arguments);
  INFO(run.err);
  REQUIRE(run.exit == 0);
  return run;
}

/// The folder of `name` as a titan checkpoint in `temp`.
std::string imported(const std::string& name, const TempDir& temp) {
  return succeed({"checkpoint", "import", golden_folder(name).string(), (temp / name / "step-0").string()})
      .out.substr(0, (temp / name / "step-0").string().size());
}

std::vector<float> floats(const SafetensorsReader& reader, const std::string& name) {
  const TensorEntry* tensor = reader.find(name);
  REQUIRE(tensor != nullptr);
  std::vector<float> values(static_cast<std::size_t>(tensor->bytes) / 4);
  decode(tensor->type, reader.bytes(*tensor).data(), values);
  return values;
}

/// The largest divergence KL(a || b) of a row of logits.
double divergence(std::span<const float> a, std::span<const float> b, std::size_t columns) {
  double largest = 0;
  const auto log_sum = [](std::span<const float> row) {
    double sum = 0;
    for (const float x : row) sum += std::exp(double{x});
    return std::log(sum);
  };
  for (std::size_t at = 0; at < a.size(); at += columns) {
    const auto x = a.subspan(at, columns), y = b.subspan(at, columns);
    const double lx = log_sum(x), ly = log_sum(y);
    double kl = 0;
    for (std::size_t i = 0; i < columns; ++i) kl += std::exp(x[i] - lx) * ((x[i] - lx) - (double{y[i]} - ly));
    largest = std::max(largest, std::abs(kl));
  }
  return largest;
}

}  // namespace

TEST_CASE("logits and greedy tokens are transformers'") {
  const TempDir temp;
  const nlohmann::json all = facts();
  const SafetensorsReader expected(golden_folder("logits.safetensors"));
  for (const std::string name : {"sharded", "scaled", "tied", "torchtitan"}) {
    const std::string of = name == "torchtitan" ? "scaled" : name;
    const std::string model = name == "tied" ? imported(name, temp) : golden_folder(name).string();
    const std::string file = (temp / (name + ".safetensors")).string();
    const Run run = succeed({"generate", model, "--tokenizer", "byte", "--prompt", all["prompt"],
                             "--temperature", "0", "--max-new-tokens", "64", "--json", "--logits", file});
    INFO(name);
    CHECK(nlohmann::json::parse(run.out)["output_ids"] == all[of]["greedy"]);
    const std::vector<float> theirs = floats(expected, of), ours = floats(SafetensorsReader(file), "logits");
    REQUIRE(ours.size() == 64 * 260);
    CHECK(divergence(theirs, std::span(ours).first(theirs.size()), 260) < 1e-9);
  }
}

TEST_CASE("perplexity is transformers'") {
  const TempDir temp;
  const nlohmann::json all = facts();
  const fs::path text = temp / "text.txt";
  std::ofstream(text) << all["text"].get<std::string>();
  for (const std::string name : {"sharded", "scaled", "tied"}) {
    const Run run =
        succeed({"eval", golden_folder(name).string(), "--tokenizer", "byte", "--data", text.string(),
                 "--seq-len", std::to_string(all["seq_len"].get<int>()), "--json"});
    const nlohmann::json result = nlohmann::json::parse(run.out);
    INFO(name);
    CHECK(result["tokens"] == all[name]["loss_tokens"]);
    CHECK(result["perplexity"].get<double>() ==
          Approx(std::exp(all[name]["loss"].get<double>())).epsilon(1e-5));
  }
}

TEST_CASE("import then export gives the same bytes through a checkpoint that verifies") {
  const TempDir temp;
  for (const auto& [name, dtype] :
       {std::pair{"sharded", "float32"}, {"scaled", "bfloat16"}, {"tied", "float16"}}) {
    const std::string checkpoint = imported(name, temp);
    CHECK(run_titan({"checkpoint", "verify", checkpoint}).exit == 0);
    CHECK(run_titan({"checkpoint", "import", golden_folder(name).string(), checkpoint}).exit ==
          1);  // is there
    const fs::path out = temp / (std::string(name) + "-out");
    const Run run =
        succeed({"checkpoint", "export", checkpoint, out.string(), "--dtype", dtype, "--tokenizer",
                 std::string(TITAN_TEST_DATA) + "/tokenizer/gpt2_small", "--max-shard-size", "20KB"});
    CHECK_THAT(run.err, Contains("Exporting done"));
    CHECK(tensors_of(out) == tensors_of(golden_folder(name)));
    const nlohmann::json config = nlohmann::json::parse(std::ifstream(out / "config.json"));
    CHECK(config["max_position_embeddings"] == 256);
    CHECK(config["torch_dtype"] == dtype);
    for (const char* file : {"tokenizer.json", "tokenizer_config.json", "generation_config.json"})
      CHECK(fs::exists(out / file));
  }
}

TEST_CASE("a run starts from a Hugging Face folder and ends in one") {
  const TempDir temp;
  const std::string folder = golden_folder("scaled").string();
  const std::vector<std::string> start{"--checkpoint.enable",
                                       "--checkpoint.initial_load_in_hf",
                                       "--checkpoint.initial_load_path=" + folder,
                                       "--checkpoint.last_save_model_only=true",
                                       "--checkpoint.last_save_in_hf",
                                       "--checkpoint.export_dtype=bfloat16",
                                       "--training.steps=2",
                                       "--optimizer.lr=0",
                                       "--optimizer.weight_decay=0"};
  const Run other = run_titan(small_run(temp.path(), start));
  CHECK(other.exit == 1);
  CHECK_THAT(other.err, Contains("another model") && Contains("model.head_dim = 12") &&
                            Contains("model.rope_original_length = 32"));

  std::vector<std::string> same = start;
  for (const char* key :
       {"flavor=custom", "dim=16", "n_layers=2", "n_heads=4", "n_kv_heads=2", "head_dim=12", "ffn_dim=32",
        "vocab_size=260", "rope_theta=500000", "rope_scaling=llama3", "rope_scaling_factor=8",
        "rope_original_length=32", "norm_eps=1e-5", "tie_embeddings=false"})
    same.push_back(std::string("--model.") + key);
  const Run run = succeed(small_run(temp.path(), same));
  CHECK_THAT(run.err, Contains("Weights: loaded from " + folder));
  CHECK(tensors_of(temp / "out/checkpoint/step-2-hf") == tensors_of(folder));  // nothing was learned
}

TEST_CASE("wrong folders are told from damage") {
  const TempDir temp;
  const Run none = run_titan({"checkpoint", "import", temp.path().string(), (temp / "out").string()});
  CHECK(none.exit == 1);
  CHECK_THAT(none.err, Contains("safetensors"));
  std::ofstream(temp / ".metadata") << "x";
  const Run dcp = run_titan({"checkpoint", "import", temp.path().string(), (temp / "out").string()});
  CHECK_THAT(dcp.err, Contains("convert_to_hf"));
  CHECK(run_titan({"checkpoint", "export", (temp / "none").string(), (temp / "out").string()}).exit == 1);
  CHECK(run_titan({"checkpoint", "export", "a", "b", "--dtype", "int8"}).exit == 2);
}
