#include "engine/data/import.h"

#include "engine/data/prepared_shards.h"
#include "engine/data/token_shard.h"
#include "engine/tokenizer/tokenizer.h"
#include "tests/engine/data/data_files.h"
#include "tests/support/temp_dir.h"

#include <catch2/catch.hpp>

using namespace titan;
using namespace titan::test;
using Catch::Contains;

namespace {

template <class T>
std::string packed(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

std::string llm_c(int32_t magic, int32_t version, int32_t count, const std::string& tokens) {
  std::vector<int32_t> header(256, 0);
  header[0] = magic, header[1] = version, header[2] = count;
  return packed(header) + tokens;
}

std::string megatron(uint8_t type, const std::vector<int32_t>& lengths, const std::vector<int64_t>& offsets,
                     const std::vector<int64_t>& documents) {
  return std::string("MMIDIDX\0\0", 9) + packed<uint64_t>({1}) + packed<uint8_t>({type}) +
         packed<uint64_t>({lengths.size(), documents.size()}) + packed(lengths) + packed(offsets) +
         packed(documents);
}

struct Content {
  std::vector<int32_t> tokens;
  std::vector<int64_t> starts;
};

Content read(const std::filesystem::path& folder) {
  Content all;
  for (const auto& path : find_shards({folder.string()})) {
    const TokenShard shard(path);
    shard.verify();
    const auto base = static_cast<int64_t>(all.tokens.size());
    all.tokens.resize(all.tokens.size() + static_cast<size_t>(shard.info().token_count));
    shard.read(0, std::span(all.tokens).subspan(static_cast<size_t>(base)));
    shard.document_starts(0, shard.info().token_count, base, all.starts);
  }
  return all;
}

/// The byte tokenizer: 258 ids, 256 begins a document, 257 ends it.
struct Fixture {
  TempDir dir;
  std::unique_ptr<Tokenizer> tokenizer = make_byte_tokenizer();

  std::string file(const std::string& name, const std::string& bytes) {
    write_file(dir / name, bytes);
    return (dir / name).string();
  }
  ImportedData import(const std::vector<std::string>& inputs, const ImportOptions& options = {}) {
    return import_tokens(inputs, *tokenizer, dir / "out", options);
  }
  std::string error(const std::vector<std::string>& inputs, const ImportOptions& options = {}) {
    return error_of([&] { import(inputs, options); });
  }
};

}  // namespace

TEST_CASE_METHOD(Fixture, "llm.c's files become shards, uint16 and uint32") {
  const std::string a = file("a.bin", llm_c(20240520, 1, 5, packed<uint16_t>({256, 1, 2, 256, 3})));
  const std::string b = file("b.bin", llm_c(20240801, 7, 3, packed<uint32_t>({7, 256, 8})));
  const ImportedData data = import({a, b});
  CHECK(data.tokens == 8);
  CHECK(data.documents == 4);
  const Content content = read(dir / "out");
  CHECK(content.tokens == std::vector<int32_t>{256, 1, 2, 256, 3, 7, 256, 8});
  CHECK(content.starts == std::vector<int64_t>{0, 3, 5, 6});
  // A folder is its .bin files by name, and an import replaces the one before.
  CHECK(import({dir.path().string()}).tokens == 8);
  CHECK(import({(dir / "b*.bin").string()}).tokens == 3);
  CHECK(read(dir / "out").tokens == std::vector<int32_t>{7, 256, 8});
  CHECK(open_shards(find_shards({(dir / "out").string()}), *tokenizer).tokens == 3);
}

TEST_CASE_METHOD(Fixture, "nanoGPT's files are taken when they are named as such") {
  const std::string a = file("a.bin", packed<uint16_t>({1, 2, 257, 3, 257, 4}));
  CHECK_THAT(error({a}), Contains("--format=nanogpt"));
  import({a}, {.format = TokenFormat::nano_gpt, .end_id = 257});
  CHECK(read(dir / "out").tokens == std::vector<int32_t>{1, 2, 257, 3, 257, 4});
  CHECK(read(dir / "out").starts == std::vector<int64_t>{0, 3, 5});
  CHECK_THAT(error({file("b.bin", "abc")}, {.format = TokenFormat::nano_gpt}), Contains("byte 2: 3 bytes"));
}

TEST_CASE_METHOD(Fixture, "Megatron's sequences are read in the index's order, its documents kept") {
  // Sequences of 2, 0, 3 and 1 tokens; the last two lie in front. Documents: {0, 1}, {} and {2, 3}.
  const std::vector<int64_t> documents = {0, 2, 2, 4};
  const auto check = [&](uint8_t type, const std::string& tokens, int64_t width) {
    INFO(int{type});
    const std::string bin = file("m.bin", tokens);
    file("m.idx", megatron(type, {2, 0, 3, 1}, {4 * width, 0, 0, 3 * width}, documents) + "modes");
    import({bin});
    CHECK(read(dir / "out").tokens == std::vector<int32_t>{50, 60, 10, 20, 30, 40});
    CHECK(read(dir / "out").starts == std::vector<int64_t>{0, 2});
  };
  check(1, packed<uint8_t>({10, 20, 30, 40, 50, 60}), 1);
  check(2, packed<int8_t>({10, 20, 30, 40, 50, 60}), 1);
  check(3, packed<int16_t>({10, 20, 30, 40, 50, 60}), 2);
  check(4, packed<int32_t>({10, 20, 30, 40, 50, 60}), 4);
  check(5, packed<int64_t>({10, 20, 30, 40, 50, 60}), 8);
  check(8, packed<uint16_t>({10, 20, 30, 40, 50, 60}), 2);
}

TEST_CASE_METHOD(Fixture, "shards are cut at their size and the same whatever it is") {
  std::vector<uint16_t> tokens(3 << 20);
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<uint16_t>(i % 257);
  const std::string a = file("a.bin", llm_c(20240520, 1, 3 << 20, packed(tokens)));
  CHECK(import({a}, {.max_shard_tokens = 1 << 20}).shards == 3);
  const Content cut = read(dir / "out");
  CHECK(import({a}).shards == 1);
  const Content whole = read(dir / "out");
  CHECK(cut.tokens == whole.tokens);
  CHECK(cut.starts == whole.starts);
  CHECK(whole.starts.size() == (tokens.size() + 256) / 257);
}

TEST_CASE_METHOD(Fixture, "what is wrong with a file of tokens is said with its place") {
  const std::string one = packed<uint16_t>({1});
  CHECK_THAT(error({file("a.bin", llm_c(20240520, 1, 2, one))}),
             Contains("byte 8: the header names 2 tokens"));
  CHECK_THAT(error({file("a.bin", llm_c(20240520, 1, -1, one))}), Contains("byte 8: the header names -1"));
  CHECK_THAT(error({file("a.bin", llm_c(20240520, 9, 1, one))}), Contains("with version 9"));
  CHECK_THAT(error({file("a.bin", packed<int32_t>({20240520, 1}))}), Contains("shorter than llm.c's header"));
  CHECK_THAT(error({file("a.bin", llm_c(20240520, 1, 1, packed<uint16_t>({258})))}),
             Contains("byte 1024: the id 258 is outside the vocabulary of 258"));
  CHECK_THAT(error({file("a.bin", llm_c(20240801, 7, 1, packed<uint32_t>({UINT32_MAX})))}),
             Contains("4294967295"));
  CHECK_THAT(error({file("a.bin", llm_c(20240520, 1, 1, packed<uint16_t>({9})))}, {.vocab_size = 9}),
             Contains("the id 9 is outside the vocabulary of 9"));
  CHECK_THAT(error({dir / "a.bin"}, {.vocab_size = 259}), Contains("a vocabulary of 259 does not fit"));
  CHECK_THAT(error({file("a.bin", "")}), Contains("empty"));
  CHECK_THAT(error({dir / "none.bin"}), Contains("does not exist"));
  CHECK_THAT(error({file("a.txt", "text")}), Contains("is no .bin file"));

  file("m.bin", packed<uint16_t>({1, 2, 3}));
  const auto with_index = [&](const std::string& index) {
    file("m.idx", index);
    return error({dir / "m.bin"});
  };
  const std::string good = megatron(8, {3}, {0}, {0, 1});
  REQUIRE(with_index(good).empty());
  CHECK_THAT(with_index("MMIDX"), Contains("no MMIDIDX"));
  CHECK_THAT(with_index(good.substr(0, 20)), Contains("shorter than the header"));
  CHECK_THAT(with_index(good.substr(0, good.size() - 1)), Contains("byte 26: 2 bounds of documents"));
  CHECK_THAT(with_index(megatron(6, {3}, {0}, {0, 1})), Contains("type 6 holds no token ids"));
  CHECK_THAT(with_index(megatron(8, {4}, {0}, {0, 1})),
             Contains("sequence 0 is 4 tokens of 2 bytes at byte 0"));
  CHECK_THAT(with_index(megatron(8, {-1}, {0}, {0, 1})), Contains("-1 tokens"));
  CHECK_THAT(with_index(megatron(8, {1}, {-2}, {0, 1})), Contains("at byte -2"));
  CHECK_THAT(with_index(megatron(8, {1}, {7}, {0, 1})), Contains("at byte 7"));
  CHECK_THAT(with_index(megatron(8, {1, 1}, {0, 2}, {0, 1})), Contains("must be all"));
  CHECK_THAT(with_index(megatron(8, {1, 1}, {0, 2}, {0, 2, 1, 2})), Contains("ascending"));
  CHECK_THAT(with_index(megatron(8, {0}, {0}, {0, 1})), Contains("no token"));
}

TEST_CASE_METHOD(Fixture, "an import that failed leaves no data set, and shards of others are kept") {
  std::vector<uint16_t> tokens(2 << 20, 1);
  tokens.back() = 999;
  CHECK(!error({file("a.bin", llm_c(20240520, 1, 2 << 20, packed(tokens)))}, {.max_shard_tokens = 1 << 20})
             .empty());
  CHECK_THAT(error_of([&] { find_shards({(dir / "out").string()}); }), Contains("has not finished"));

  std::filesystem::remove_all(dir / "out");
  std::filesystem::create_directory(dir / "out");
  write_counting_shard(dir / "out/mine.tokens", 0, 10, {0}, 258);
  CHECK_THAT(error({file("b.bin", llm_c(20240520, 1, 1, packed<uint16_t>({1})))}),
             Contains("choose another --output"));
  CHECK(std::filesystem::exists(dir / "out/mine.tokens"));
}
