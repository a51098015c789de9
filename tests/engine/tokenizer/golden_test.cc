// Ids against those of Hugging Face's tokenizers and of tiktoken (scripts/goldens/make_tokenizer_goldens.py).
#include <catch2/catch.hpp>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include <zlib.h>

#include "engine/tokenizer/tokenizer.h"
#include "tests/support/temp_dir.h"

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

std::string gunzip(const std::string& name) {
  const std::unique_ptr<gzFile_s, decltype(&gzclose)> file(gzopen((kData + name).c_str(), "rb"), gzclose);
  REQUIRE(file != nullptr);
  std::string text(size_t{16} << 20, '\0');
  const int bytes = gzread(file.get(), text.data(), static_cast<unsigned>(text.size()));
  REQUIRE((bytes > 0 && bytes < static_cast<int>(text.size())));
  text.resize(static_cast<size_t>(bytes));
  return text;
}

/// hostile.json.gz spells byte b as the character U+00b.
std::string bytes_of(const std::string& latin1) {
  std::string bytes;
  for (size_t i = 0; i < latin1.size(); ++i) {
    const auto lead = static_cast<unsigned char>(latin1[i]);
    bytes += lead < 0x80 ? latin1[i] : static_cast<char>((lead & 3) << 6 | (latin1[++i] & 0x3F));
  }
  return bytes;
}

std::pair<size_t, uint32_t> digest(const std::vector<int32_t>& ids) {
  const auto* bytes = reinterpret_cast<const unsigned char*>(ids.data());
  return {ids.size(), static_cast<uint32_t>(crc32_z(0, bytes, ids.size() * sizeof(int32_t)))};
}

void check_hostile(const Tokenizer& tokenizer, const std::string& name) {
  static const nlohmann::json record = nlohmann::json::parse(gunzip("hostile.json.gz"));
  const nlohmann::json& texts = record["texts"];
  const nlohmann::json& expected = record["ids"][name];
  REQUIRE(texts.size() > 2000);
  REQUIRE(texts.size() == expected.size());
  for (size_t i = 0; i < texts.size(); ++i) {
    const std::string text = bytes_of(texts[i].get_ref<const std::string&>());
    if (digest(encode(tokenizer, text)) == expected[i].get<std::pair<size_t, uint32_t>>()) continue;
    FAIL_CHECK(name << " differs on text " << i << ": " << texts[i].dump(-1, ' ', true).substr(0, 200));
  }
}

/// llama3_small with this flag and its merges in the older form "a b".
std::unique_ptr<Tokenizer> llama3_small(bool ignore_merges, bool pairs) {
  std::ifstream file(kData + "llama3_small/tokenizer.json");
  nlohmann::json description = nlohmann::json::parse(file);
  nlohmann::json& model = description["model"];
  model["ignore_merges"] = ignore_merges;
  for (nlohmann::json& merge : model["merges"]) {
    REQUIRE(merge.size() == 2);
    if (!pairs) merge = merge[0].get<std::string>() + " " + merge[1].get<std::string>();
  }
  const test::TempDir folder;
  std::ofstream(folder / "tokenizer.json") << description;
  return load_tokenizer(folder / "tokenizer.json");
}

}  // namespace

TEST_CASE("hostile texts get the reference libraries' ids", "[tokenizer]") {
  check_hostile(*load_tokenizer(kEnglish), "english_2048");
  check_hostile(*load_tokenizer(kData + "gpt2_small"), "gpt2_small");
  check_hostile(*load_tokenizer(kData + "tiktoken_small"), "tiktoken_small");
  for (const bool pairs : {true, false}) {
    check_hostile(*llama3_small(true, pairs), "llama3_small");
    check_hostile(*llama3_small(false, pairs), "llama3_small, merges only");
  }
}

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
