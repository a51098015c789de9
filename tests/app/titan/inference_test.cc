// plan, data, checkpoint, generate, eval and doctor from the outside.
#include <catch2/catch.hpp>
#include <fstream>

#include "tests/app/titan/run_titan.h"
#include "tests/support/temp_dir.h"

using namespace titan::test;
using Catch::Contains;

namespace {

/// One trained model for all cases of this file.
const std::filesystem::path& trained() {
  static const TempDir folder;
  static const bool done = [] {
    const Run run = run_titan(small_run(folder.path(), {"--training.steps=60"}));
    INFO(run.err);
    REQUIRE(run.exit == 0);
    return true;
  }();
  REQUIRE(done);
  return folder.path();
}

std::string checkpoint() { return (trained() / "out/checkpoint/step-60").string(); }

std::vector<int> greedy(const std::string& prompt, int tokens) {
  const Run run = run_titan({"generate", checkpoint(), "--prompt", prompt, "--temperature", "0",
                             "--max-new-tokens", std::to_string(tokens), "--json"});
  INFO(run.err);
  REQUIRE(run.exit == 0);
  return nlohmann::json::parse(run.out)["output_ids"];
}

}  // namespace

TEST_CASE("greedy generation does not depend on how the prompt was fed") {
  // 100 tokens of prompt go through two prefill chunks; fed one by one through decode they give the same
  // continuation.
  std::string prompt = "line 12 of a text that repeats itself, 28 times or so.\nline 13 of a text that rep";
  const std::vector<int> longer = greedy(prompt, 12);
  REQUIRE(longer.size() == 12);
  std::string extended = prompt;
  for (int i = 0; i < 6; ++i) extended += static_cast<char>(longer[static_cast<std::size_t>(i)]);
  const std::vector<int> rest = greedy(extended, 6);
  CHECK(rest == std::vector<int>(longer.begin() + 6, longer.end()));
}

TEST_CASE("sampling is a function of the seed") {
  const auto text = [](const std::string& seed) {
    return run_titan({"generate", checkpoint(), "--prompt", "line", "--seed", seed, "--max-new-tokens", "40",
                      "--top-k", "20"})
        .out;
  };
  CHECK(text("1") == text("1"));
  CHECK(text("1") != text("2"));
}

TEST_CASE("eval measures what validation measured") {
  const Run run = run_titan({"eval", checkpoint(), "--data", (trained() / "text.txt").string(), "--json"});
  INFO(run.err);
  REQUIRE(run.exit == 0);
  const nlohmann::json result = nlohmann::json::parse(run.out);
  CHECK(result["perplexity"].get<double>() == Approx(std::exp(result["loss"].get<double>())));
  double validated = 0;
  for (const nlohmann::json& line : metrics(trained()))
    if (line["kind"] == "validation") validated = line["loss"];
  CHECK(result["loss"].get<double>() == Approx(validated).margin(0.4));
  const Run narrow = run_titan({"eval", checkpoint(), "--data", (trained() / "text.txt").string(), "--json",
                                "--dtype", "bfloat16", "--batch", "7"});
  CHECK(nlohmann::json::parse(narrow.out)["loss"].get<double>() ==
        Approx(result["loss"].get<double>()).epsilon(0.01));
}

TEST_CASE("checkpoint list, inspect and verify") {
  const Run list = run_titan({"checkpoint", "list", (trained() / "out/checkpoint").string()});
  CHECK_THAT(list.out, Contains("60"));
  const Run inspect = run_titan({"checkpoint", "inspect", checkpoint()});
  CHECK_THAT(inspect.out, Contains("model.layers.1.mlp.down_proj.weight") && Contains("vocab_size = 258"));
  CHECK(run_titan({"checkpoint", "verify", checkpoint()}).exit == 0);
  const TempDir copy;
  std::filesystem::copy(checkpoint(), copy / "step-60", std::filesystem::copy_options::recursive);
  std::fstream file(copy / "step-60/rank-0.safetensors", std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(-100, std::ios::end);
  file.put('\x55');
  file.close();
  const Run damaged = run_titan({"checkpoint", "verify", (copy / "step-60").string()});
  CHECK(damaged.exit == 1);
  CHECK_THAT(damaged.out, Contains("rank-0.safetensors"));
  CHECK(run_titan({"generate", (copy / "step-60").string(), "--prompt", "x"}).exit == 1);
}

TEST_CASE("plan prints, dumps and gives JSON") {
  const std::string recipe = (trained() / "recipe.toml").string();
  CHECK_THAT(run_titan({"plan", recipe}).out,
             Contains("parameter") && Contains("program train") && Contains("waste"));
  const Run dump = run_titan({"plan", recipe, "--dump"});
  CHECK_THAT(dump.out,
             Contains("segment forward") && Contains("attention_grad") && Contains("layers.1.attn.q"));
  CHECK_THAT(run_titan({"plan", recipe, "--dump", "--unroll"}).out, Contains("m1 s0"));
  CHECK_THAT(run_titan({"plan", recipe, "--dump", "--program", "evaluate"}).out,
             Contains("segment evaluate"));
  CHECK(run_titan({"plan", recipe, "--dump", "--program", "nothing"}).exit == 2);
  const Run parallel = run_titan({"plan", recipe, "--parallelism.tensor_parallel_degree=8"});
  CHECK(parallel.exit == 0);
  CHECK_THAT(parallel.err, Contains("planned as one rank") && Contains("tensor_parallel_degree"));
}

TEST_CASE("data encode prints the ids of documents, data import takes them back") {
  const TempDir folder;
  std::ofstream(folder / "a.jsonl") << "{\"text\": \"ab\\nc\"}\n{\"text\": \"\"}\n{\"text\": \"d\"}\n";
  std::ofstream(folder / "b.txt") << "e\xff";
  const Run encoded = run_titan(
      {"data", "encode", (folder / "a.jsonl").string(), (folder / "b.txt").string(), "--tokenizer", "byte"});
  CHECK(encoded.out == "97 98 10 99\n\n100\n101 255\n");
  CHECK_THAT(run_titan({"data", "encode", (folder / "b.txt").string(), "--tokenizer=byte", "--summary"}).out,
             Contains("1 documents, 2 bytes, 2 tokens, "));

  const std::uint16_t tokens[] = {256, 97, 257, 256, 98, 257};
  std::ofstream(folder / "raw.bin").write(reinterpret_cast<const char*>(tokens), sizeof(tokens));
  std::vector<std::string> command{"data", "import", (folder / "raw.bin").string(), "--tokenizer=byte",
                                   "--output=" + (folder / "tokens").string()};
  CHECK_THAT(run_titan(command).err, Contains("say --format=nanogpt"));
  command.emplace_back("--format=nanogpt");
  const Run imported = run_titan(command);
  INFO(imported.err);
  CHECK(imported.exit == 0);
  CHECK_THAT(imported.out, Contains("6 tokens, 2 documents, 1 shards"));
  CHECK(run_titan({"data", "inspect", (folder / "tokens").string(), "--verify"}).exit == 0);
  command.emplace_back("--vocab-size=257");
  CHECK_THAT(run_titan(command).err, Contains("the id 257 is outside the vocabulary of 257"));
}

TEST_CASE("data prepare and inspect") {
  const TempDir folder;
  const Run prepared = run_titan({"data", "prepare", (trained() / "text.txt").string(), "--tokenizer", "byte",
                                  "--output", (folder / "shards").string()});
  INFO(prepared.err);
  REQUIRE(prepared.exit == 0);
  const std::string shards = prepared.out.substr(0, prepared.out.find(':'));
  const Run inspected = run_titan({"data", "inspect", shards, "--json", "--verify"});
  REQUIRE(inspected.exit == 0);
  CHECK(nlohmann::json::parse(inspected.out)["documents"] == 1);
  CHECK(run_titan({"data", "prepare", "/nowhere", "--tokenizer", "byte", "--output", folder.path().string()})
            .exit == 1);
}

TEST_CASE("doctor, version, help and bad usage") {
  const Run doctor = run_titan({"doctor"});
  CHECK(doctor.exit == 0);
  CHECK_THAT(doctor.out, Contains("backend") && Contains("memory"));
  CHECK_THAT(run_titan({"--version"}).out, Contains("titan "));
  const Run help = run_titan({"train", "--help"});
  CHECK(help.exit == 0);
  CHECK_THAT(help.out, Contains("training.seq_len") && Contains("--dry-run"));
  CHECK(run_titan({}).exit == 2);
  CHECK(run_titan({"frobnicate"}).exit == 2);
  CHECK(run_titan({"train", "/no/recipe.toml"}).exit == 2);
}

TEST_CASE("every instruction set trains to the same losses within float tolerance") {
  std::vector<double> finals;
  for (const char* isa : {"baseline", "avx2", "avx512"}) {
    const TempDir folder;
    const Run run = run_titan(small_run(folder.path(), {"--training.mixed_precision_param=float32"}),
                              {std::string("TITAN_CPU_ISA=") + isa});
    INFO(run.err);
    REQUIRE(run.exit == 0);
    finals.push_back(losses(folder.path()).at(12));
  }
  CHECK(finals[1] == Approx(finals[0]).epsilon(1e-4));
  CHECK(finals[2] == Approx(finals[0]).epsilon(1e-4));
}
