#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>

#include "engine/tokenizer/tokenizer.h"
#include "kernels/base/error.h"
#include "tests/support/temp_dir.h"

namespace titan {
namespace {

using Catch::Matchers::Contains;
using nlohmann::json;

const std::string kGpt2Small = std::string(TITAN_TEST_DATA) + "/tokenizer/gpt2_small";
const std::string kTiktokenSmall = std::string(TITAN_TEST_DATA) + "/tokenizer/tiktoken_small";

// A folder with gpt2_small's tokenizer.json, changed, and a tokenizer_config.json unless null.
std::unique_ptr<Tokenizer> load_with(const json& patch, const json& config) {
  const test::TempDir folder;
  json tokenizer = json::parse(std::ifstream(kGpt2Small + "/tokenizer.json"));
  if (!patch.is_null()) tokenizer.merge_patch(patch);
  std::ofstream(folder / "tokenizer.json") << tokenizer;
  if (!config.is_null()) std::ofstream(folder / "tokenizer_config.json") << config;
  return load_tokenizer(folder.path());
}

std::vector<int32_t> encode(const Tokenizer& tokenizer, std::string_view text) {
  std::vector<int32_t> ids;
  tokenizer.encode(text, ids);
  return ids;
}

}  // namespace

TEST_CASE("BOS and EOS come from the config, the template, or well-known names", "[tokenizer]") {
  const auto plain = load_with({}, nullptr);
  CHECK(plain->vocab_size() == 407);
  CHECK(plain->bos() == 400);
  CHECK(plain->eos() == 401);

  const json with_template = json::parse(R"({"post_processor": {"type": "Sequence", "processors": [
      {"type": "ByteLevel"}, {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "cat"}}],
      "special_tokens": {"cat": {"ids": [340]}}}]}})");
  CHECK(load_with(with_template, nullptr)->bos() == 340);

  const auto configured =
      load_with(with_template, {{"bos_token", {{"content", "<mask>"}}}, {"eos_token", "cat"}});
  CHECK(configured->bos() == 403);
  CHECK(configured->eos() == 340);

  const auto without = load_with(with_template, {{"bos_token", nullptr}, {"eos_token", nullptr}});
  CHECK_FALSE(without->bos().has_value());
  CHECK_FALSE(without->eos().has_value());
}

TEST_CASE("special tokens that only the config knows get the next ids", "[tokenizer]") {
  const json config =
      json::parse(R"({"bos_token": "<new>", "added_tokens_decoder": {"9": {"content": "<other>"}}})");
  const auto tokenizer = load_with({}, config);
  CHECK(tokenizer->bos() == 407);
  CHECK(tokenizer->vocab_size() == 409);
  CHECK(encode(*tokenizer, "<new><other>") == std::vector<int32_t>{407, 408});
  CHECK(tokenizer->decode(std::vector<int32_t>{408, 407}) == "<other><new>");
}

TEST_CASE("bytes that the vocabulary lacks are dropped, tokens spelled as plain text only decode",
          "[tokenizer]") {
  const json vocab = {{"a", 0}, {"b", 1}, {"ab", 2}, {"a b", 3}};
  const json added = {{{"content", "<x>"}, {"id", 4}, {"special", true}}};
  const test::TempDir folder;
  std::ofstream(folder / "tokenizer.json") << json{{"pre_tokenizer", {{"type", "ByteLevel"}}},
                                                   {"added_tokens", added},
                                                   {"model", {{"vocab", vocab}, {"merges", {"a b"}}}}};
  const auto tokenizer = load_tokenizer(folder / "tokenizer.json");
  CHECK(encode(*tokenizer, "a b zab\u00E9<x>ba") == std::vector<int32_t>{0, 1, 2, 4, 1, 0});
  CHECK(tokenizer->decode(std::vector<int32_t>{3, 0}) == "a ba");
}

TEST_CASE("fingerprints follow what the ids depend on", "[tokenizer]") {
  const std::string plain = load_with({}, nullptr)->fingerprint();
  CHECK(load_with({}, nullptr)->fingerprint() == plain);
  CHECK(load_with({}, {{"chat_template", "x"}})->fingerprint() == plain);
  CHECK(load_with({}, {{"bos_token", "<mask>"}})->fingerprint() != plain);
  CHECK(load_with({{"pre_tokenizer", {{"add_prefix_space", false}}}}, nullptr)->fingerprint() != plain);
  CHECK(make_byte_tokenizer()->fingerprint() != plain);
}

TEST_CASE("merges as strings and as pairs mean the same", "[tokenizer]") {
  const json tokenizer = json::parse(std::ifstream(kGpt2Small + "/tokenizer.json"));
  json pairs = json::array();
  for (const json& merge : tokenizer["model"]["merges"]) {
    const std::string line = merge.get<std::string>();
    const size_t space = line.find(' ');
    pairs.push_back({line.substr(0, space), line.substr(space + 1)});
  }
  const std::string text = "The cat's whiskers, 1234 <|end_of_text|>\n\n don't";
  CHECK(encode(*load_with({{"model", {{"merges", pairs}}}}, nullptr), text) ==
        encode(*load_with({}, nullptr), text));
}

TEST_CASE("Llama 3's special tokens follow the ranks", "[tokenizer]") {
  const auto tokenizer = load_tokenizer(kTiktokenSmall);
  CHECK(tokenizer->vocab_size() == 600 + 256);
  CHECK(tokenizer->bos() == 600);
  CHECK(tokenizer->eos() == 601);
  CHECK(encode(*tokenizer, "<|eot_id|>") == std::vector<int32_t>{609});
  CHECK(tokenizer->decode(std::vector<int32_t>{855}) == "<|reserved_special_token_247|>");
}

TEST_CASE("paths that hold no tokenizer are refused", "[tokenizer]") {
  const test::TempDir folder;
  CHECK_THROWS_WITH(load_tokenizer(folder.path()),
                    Contains("neither a tokenizer.json nor a tokenizer.model"));
  CHECK_THROWS_WITH(load_tokenizer(folder / "none"), Contains("no tokenizer at"));
  std::ofstream(folder / "vocab.txt") << "x";
  CHECK_THROWS_WITH(load_tokenizer(folder / "vocab.txt"), Contains("ends in .json"));
  CHECK_THROWS_WITH(load_with({}, json::array()), Contains("tokenizer_config.json: not a JSON object"));
  CHECK_THROWS_WITH(load_with({}, {{"bos_token", 5}}), Contains("bos_token: expected a string"));
}

}  // namespace titan
