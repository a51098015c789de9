// Files that are not what they should be: each gives one UserError with the file, the field and the reason.
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

json gpt2_small() {
  std::ifstream file(std::string(TITAN_TEST_DATA) + "/tokenizer/gpt2_small/tokenizer.json");
  return json::parse(file);
}

void check_refused(const std::string& name, const std::string& content, const std::string& reason) {
  const test::TempDir folder;
  std::ofstream(folder / name, std::ios::binary) << content;
  INFO(reason);
  CHECK_THROWS_WITH(load_tokenizer(folder / name), Contains((folder / name).string()) && Contains(reason));
  CHECK_THROWS_AS(load_tokenizer(folder / name), UserError);
}

}  // namespace

TEST_CASE("a malformed tokenizer.json is refused with file and field", "[tokenizer]") {
  const json good = gpt2_small();
  struct Case {
    const char* pointer;
    json value;
    const char* reason;
  };
  const json split = {{"type", "Split"}, {"pattern", {{"Regex", "a+"}}}, {"behavior", "Isolated"}};
  const auto with = [](json object, const char* key, const json& value) {
    object[key] = value;
    return object;
  };
  const json byte_level = {{"type", "ByteLevel"}};
  const auto sequence = [](const json& steps) {
    return json{{"type", "Sequence"}, {"pretokenizers", steps}};
  };
  const Case cases[] = {
      {"/model", 5, "model is 5; expected an object"},
      {"/model/type", "Unigram", "model.type is \"Unigram\""},
      {"/model/type", 3, "model.type is 3; expected a string"},
      {"/model/dropout", 0.1, "model.dropout is 0.1"},
      {"/model/byte_fallback", true, "model.byte_fallback is true"},
      {"/model/byte_fallback", "no", "model.byte_fallback is \"no\"; expected true or false"},
      {"/model/continuing_subword_prefix", "##", "model.continuing_subword_prefix is \"##\""},
      {"/model/end_of_word_suffix", "</w>", "model.end_of_word_suffix"},
      {"/model/vocab", json::object(), "model.vocab: expected an object with at least one token"},
      {"/model/vocab", json::array(), "model.vocab: expected an object"},
      {"/model/vocab/a", -1, "model.vocab: the id of \"a\" is -1, not a whole number"},
      {"/model/vocab/a", "x", "model.vocab: the id of \"a\" is \"x\""},
      {"/model/vocab/a", json::object(), "model.vocab: the id of \"a\" is {}"},
      {"/model/vocab/a", 4000000000u, "model.vocab: the id of \"a\" is 4000000000"},
      {"/model/vocab/a", 16000000, "the id of \"a\" is 16000000, far beyond its 400 tokens"},
      {"/model/vocab/a", 1, "has id 1, which is taken"},
      {"/model/merges", nullptr, "model.merges is null; expected a list"},
      {"/model/merges", "a b", "model.merges is \"a b\"; expected a list"},
      {"/model/merges/0", "abc", "model.merges: \"abc\" is not two tokens"},
      {"/model/merges/0", "a b c", "model.merges: \"a b c\" is not two tokens"},
      {"/model/merges/0", "a qqq", "needs the token \"qqq\", which model.vocab lacks"},
      {"/model/merges/0", json::array({"a"}), "model.merges: entry 0 is not a pair of strings"},
      {"/model/merges/0", json::array({"a", "b", "c"}), "model.merges: entry 0 is not a pair"},
      {"/model/merges/0", json::array({"a", 1}), "model.merges: entry 0 is not a pair"},
      {"/model/merges/0", 7, "model.merges: 7 is not a merge"},
      {"/normalizer", {{"type", "NFC"}}, "normalizer is {\"type\":\"NFC\"}"},
      {"/pre_tokenizer", nullptr, "pre_tokenizer is null"},
      {"/pre_tokenizer", {{"type", "Metaspace"}}, "only ByteLevel, Split and Sequence"},
      {"/pre_tokenizer", split, "it ends in {\"type\": \"ByteLevel\"}"},
      {"/pre_tokenizer", sequence({byte_level, split}), "pre_tokenizer.pretokenizers[1]"},
      {"/pre_tokenizer", sequence({with(split, "behavior", "Removed"), byte_level}),
       "behavior is \"Removed\""},
      {"/pre_tokenizer", sequence({with(split, "pattern", {{"String", "a"}}), byte_level}),
       "pattern is {\"String\""},
      {"/pre_tokenizer", sequence({with(split, "pattern", {{"Regex", "(a"}}), byte_level}), "regex \"(a\""},
      {"/pre_tokenizer", {{"type", "Sequence"}}, "pre_tokenizer.pretokenizers is null; expected a list"},
      {"/added_tokens", "x", "added_tokens is \"x\"; expected a list"},
      {"/added_tokens/0/content", "", "added_tokens[0].content is \"\"; a token needs text"},
      {"/added_tokens/2/content", "<|begin_of_text|>", "added_tokens[2].content"},
      {"/added_tokens/1/id", 9999, "must have id 400: added tokens go on"},
      {"/added_tokens/0/lstrip", 1, "added_tokens[0].lstrip is 1; expected true or false"},
  };
  for (const Case& c : cases) {
    json bad = good;
    bad[json::json_pointer(c.pointer)] = c.value;
    check_refused("tokenizer.json", bad.dump(), c.reason);
  }
}

TEST_CASE("what is not JSON, or cut short, is refused", "[tokenizer]") {
  const std::string good = gpt2_small().dump();
  check_refused("tokenizer.json", "", "not JSON at byte");
  check_refused("tokenizer.json", "[1, 2", "not JSON at byte");
  check_refused("tokenizer.json", std::string(100000, '['), "nested deeper");
  check_refused("tokenizer.json", "[]", "model is null");
  check_refused("tokenizer.json", "\"text\"", "model is null");
  check_refused("tokenizer.json", R"({"model": {"vocab": {"a": 0, "a": 1}, "merges": []},
      "pre_tokenizer": {"type": "ByteLevel"}})",
                "model.vocab: \"a\" occurs twice");
  for (size_t size = 1; size < good.size(); size += 97) {
    check_refused("tokenizer.json", good.substr(0, size), "not JSON at byte");
  }
}

TEST_CASE("a missing byte needs no unknown token, and gets none", "[tokenizer]") {
  json bad = gpt2_small();
  bad["model"]["vocab"] = {{"a", 0}, {"b", 1}};
  bad["model"]["merges"] = json::array();
  bad["added_tokens"] = json::array();
  bad["model"]["unk_token"] = "a";
  check_refused("tokenizer.json", bad.dump(), "model.unk_token is \"a\"; unknown tokens are not supported");
}

TEST_CASE("a malformed tokenizer.model is refused with file and line", "[tokenizer]") {
  check_refused("tokenizer.model", "", "the file is empty");
  check_refused("tokenizer.model", "\n\x0E\n\x05<unk>", "line 1 is not a token: expected Llama 3's format");
  check_refused("tokenizer.model", "YQ== 0\nYg==\n", "line 2 is not a token");
  check_refused("tokenizer.model", "YQ== 0\nYg 1\n", "line 2 is not a token");
  check_refused("tokenizer.model", "YQ== 0\nYg== x\n", "line 2 is not a token");
  check_refused("tokenizer.model", "YQ== 0\nYg== 2\n", "line 2 has rank 2");
  check_refused("tokenizer.model", "YQ== 0\nYQ== 1\n", "line 2 repeats an earlier token");
  check_refused("tokenizer.model", "YQ== 0\n", "no token for byte 0x00");
  check_refused("tokenizer.model", std::string(1368, 'A') + " 0\n", "line 1 is a token of 1026 bytes");
}

}  // namespace titan
