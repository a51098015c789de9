// Ids against those of Hugging Face's tokenizers and of tiktoken (scripts/goldens/make_tokenizer_goldens.py).
#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "engine/tokenizer/tokenizer.h"

namespace titan {
namespace {

const std::string kData = std::string(TITAN_TEST_DATA) + "/tokenizer/";
const std::string kEnglish = std::string(TITAN_TEST_DATA) + "/../../configs/tokenizers/english_2048";

template <class T>
std::vector<T> read_list(const std::string& name) {
  std::ifstream file(kData + name);
  REQUIRE(file);
  return nlohmann::json::parse(file).get<std::vector<T>>();
}

std::vector<int32_t> encode(const Tokenizer& tokenizer, std::string_view text) {
  std::vector<int32_t> ids;
  tokenizer.encode(text, ids);
  return ids;
}

void check_golden(const std::string& tokenizer_path, const std::string& ids_name) {
  const std::unique_ptr<Tokenizer> tokenizer = load_tokenizer(tokenizer_path);
  const auto texts = read_list<std::string>("texts.json");
  const auto expected = read_list<std::vector<int32_t>>(ids_name);
  REQUIRE(texts.size() > 400);
  REQUIRE(texts.size() == expected.size());
  for (size_t i = 0; i < texts.size(); ++i) {
    INFO(nlohmann::json(texts[i]).dump(-1, ' ', true));
    CHECK(encode(*tokenizer, texts[i]) == expected[i]);
  }
}

}  // namespace

TEST_CASE("english_2048 gives Hugging Face's ids", "[tokenizer]") {
  check_golden(kEnglish, "english_2048.json");
}

TEST_CASE("GPT-2's regex, prefix space and added tokens with flags give Hugging Face's ids", "[tokenizer]") {
  check_golden(kData + "gpt2_small", "gpt2_small/ids.json");
}

TEST_CASE("a Llama 3 tokenizer.model gives tiktoken's ids", "[tokenizer]") {
  check_golden(kData + "tiktoken_small", "tiktoken_small/ids.json");
}

TEST_CASE("decoding gives the text back", "[tokenizer]") {
  const auto texts = read_list<std::string>("texts.json");
  for (const std::string& path : {kEnglish, kData + "tiktoken_small"}) {
    const std::unique_ptr<Tokenizer> tokenizer = load_tokenizer(path);
    for (const std::string& text : texts) CHECK(tokenizer->decode(encode(*tokenizer, text)) == text);
  }
}

TEST_CASE("invalid UTF-8 counts as U+FFFD, and ids are appended", "[tokenizer]") {
  const std::unique_ptr<Tokenizer> tokenizer = load_tokenizer(kEnglish);
  CHECK(encode(*tokenizer, "a\xE2\x82 b\xFF") == encode(*tokenizer, "a\uFFFD b\uFFFD"));
  std::vector<int32_t> ids = {7};
  tokenizer->encode("word", ids);
  CHECK(ids.front() == 7);
  CHECK(std::vector<int32_t>(ids.begin() + 1, ids.end()) == encode(*tokenizer, "word"));
}

TEST_CASE("unknown ids decode to nothing", "[tokenizer]") {
  const std::unique_ptr<Tokenizer> tokenizer = load_tokenizer(kEnglish);
  CHECK(tokenizer->decode(std::vector<int32_t>{-1, 2048, 1 << 30}).empty());
}

TEST_CASE("many threads get the ids that one thread gets", "[tokenizer]") {
  const std::unique_ptr<Tokenizer> tokenizer = load_tokenizer(kEnglish);
  const auto texts = read_list<std::string>("texts.json");
  const auto encode_all = [&](std::vector<int32_t>& ids) {
    for (const std::string& text : texts) tokenizer->encode(text, ids);
  };
  std::vector<int32_t> expected;
  encode_all(expected);
  std::vector<std::vector<int32_t>> results(4);
  std::vector<std::thread> threads;
  for (std::vector<int32_t>& ids : results) threads.emplace_back([&] { encode_all(ids); });
  for (std::thread& thread : threads) thread.join();
  for (const std::vector<int32_t>& ids : results) CHECK(ids == expected);
}

}  // namespace titan
