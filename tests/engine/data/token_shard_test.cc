#include "engine/data/token_shard.h"

#include "tests/engine/data/data_files.h"
#include "tests/support/temp_dir.h"

#include <catch2/catch.hpp>

#include <xxhash.h>

#include <cstring>
#include <functional>
#include <random>

using namespace titan;
using namespace titan::test;
using Catch::Contains;

namespace {

// Offsets in the header, written down a second time on purpose: the format is a promise.
constexpr size_t kVersion = 8, kTokenBytes = 12, kVocabSize = 16, kTokenCount = 24, kDocumentCount = 32,
                 kTextBytes = 40, kContentHash = 48, kTokenizer = 56, kHeaderHash = 152, kHeader = 160;

template <class T>
void put(std::string& bytes, size_t offset, T value) {
  std::memcpy(bytes.data() + offset, &value, sizeof(value));
}

void seal_header(std::string& bytes) {
  put<uint64_t>(bytes, kHeaderHash, XXH3_64bits(bytes.data(), kHeaderHash));
}

/// Everything a trainer or `titan data inspect --verify` does with a shard.
void use_shard(const std::filesystem::path& path) {
  const TokenShard shard(path);
  std::vector<int32_t> tokens(static_cast<size_t>(shard.info().token_count));
  shard.read(0, tokens);
  for (const int32_t token : tokens) REQUIRE(token < shard.info().vocab_size);
  std::vector<int64_t> starts;
  shard.document_starts(0, shard.info().token_count, 0, starts);
  for (const int64_t start : starts) REQUIRE(start < shard.info().token_count);
  shard.verify();
}

}  // namespace

TEST_CASE("a shard gives back what was written") {
  const TempDir dir;
  for (const int64_t vocab_size : {258, 65536, 65537, 128256}) {
    INFO(vocab_size);
    const auto path = dir / fmt::format("{}.tokens", vocab_size);
    ShardWriter writer(path, vocab_size, "tokenizer-x");
    const auto last = static_cast<int32_t>(vocab_size - 1);
    writer.append(std::vector<int32_t>{0, last, 5}, std::vector<int64_t>{0, 2}, 10);
    writer.append(std::vector<int32_t>{7, 8}, std::vector<int64_t>{}, 4);
    writer.append(std::vector<int32_t>{9}, std::vector<int64_t>{0}, 1);
    CHECK(!std::filesystem::exists(path));
    const ShardInfo written = writer.finish();
    CHECK(!std::filesystem::exists(path.string() + ".tmp"));

    const TokenShard shard(path);
    const ShardInfo& info = shard.info();
    CHECK(info.token_bytes == (vocab_size <= 65536 ? 2 : 4));
    CHECK(info.vocab_size == vocab_size);
    CHECK(info.token_count == 6);
    CHECK(info.document_count == 3);
    CHECK(info.text_bytes == 15);
    CHECK(info.tokenizer == "tokenizer-x");
    CHECK(info.content_hash == written.content_hash);
    std::vector<int32_t> tokens(6);
    shard.read(0, tokens);
    CHECK(tokens == std::vector<int32_t>{0, last, 5, 7, 8, 9});
    std::vector<int64_t> starts;
    shard.document_starts(0, 6, 100, starts);
    CHECK(starts == std::vector<int64_t>{100, 102, 105});
    starts.clear();
    shard.document_starts(1, 5, 0, starts);
    CHECK(starts == std::vector<int64_t>{2});
    shard.verify();
  }
}

TEST_CASE("an unfinished shard leaves no file") {
  const TempDir dir;
  { ShardWriter(dir / "a.tokens", 10, "t").append(std::vector<int32_t>{1}, {}, 1); }
  CHECK(std::filesystem::is_empty(dir.path()));
}

TEST_CASE("a full disk is a clear error") {
  const TempDir dir;
  std::filesystem::create_symlink("/dev/full", dir / "a.tokens.tmp");
  const std::string message = error_of([&] {
    ShardWriter writer(dir / "a.tokens", 10, "t");
    writer.append(std::vector<int32_t>(100'000, 1), {}, 1);
    writer.finish();
  });
  CHECK_THAT(message,
             Contains("a.tokens.tmp") && Contains("No space left on device") && Contains("free some space"));
  CHECK(!std::filesystem::exists(dir / "a.tokens"));
}

TEST_CASE("every corruption of a shard is a UserError that names the file") {
  const TempDir dir;
  const auto path = dir / "a.tokens";
  write_counting_shard(path, 0, 1001, {0, 10, 500}, 300);
  const std::string good = read_file(path);
  use_shard(path);
  const size_t starts = kHeader + 2008;  // 1001 uint16 tokens, padded
  REQUIRE(good.size() == starts + 3 * 8);

  struct Corruption {
    const char* name;
    const char* message;
    bool sealed;  ///< with a right header hash: made on purpose, not by a broken disk
    std::function<void(std::string&)> apply;
  };
  const std::vector<Corruption> table = {
      {"empty file", "shorter than the header", false, [](std::string& b) { b.clear(); }},
      {"one byte", "shorter than the header", false, [](std::string& b) { b.resize(1); }},
      {"half a header", "shorter than the header", false, [](std::string& b) { b.resize(80); }},
      {"header only", "tokens of 2 bytes in a file", false, [](std::string& b) { b.resize(kHeader); }},
      {"text instead", "no magic", false, [](std::string& b) { b.assign(1000, 'x'); }},
      {"zeros (never written)", "no magic", false, [](std::string& b) { b.assign(b.size(), '\0'); }},
      {"magic", "no magic", true, [](std::string& b) { b[7] = 'X'; }},
      {"next version", "version 2", true, [](std::string& b) { put<uint32_t>(b, kVersion, 2); }},
      {"version 0", "version 0", true, [](std::string& b) { put<uint32_t>(b, kVersion, 0); }},
      {"bit flip in the counts", "header hash", false, [](std::string& b) { b[kTokenCount] ^= 1; }},
      {"bit flip in the fingerprint", "header hash", false, [](std::string& b) { b[kTokenizer] ^= 1; }},
      {"bit flip in the header hash", "header hash", false, [](std::string& b) { b[kHeaderHash] ^= 1; }},
      {"token bytes 0", "bytes a token", true, [](std::string& b) { put<uint32_t>(b, kTokenBytes, 0); }},
      {"token bytes 4", "bytes a token", true, [](std::string& b) { put<uint32_t>(b, kTokenBytes, 4); }},
      {"token bytes huge", "bytes a token", true,
       [](std::string& b) { put<uint32_t>(b, kTokenBytes, 0x80000002); }},
      {"vocabulary 0", "vocabulary size 0", true, [](std::string& b) { put<uint64_t>(b, kVocabSize, 0); }},
      {"vocabulary 2^63", "vocabulary size", true,
       [](std::string& b) { put<uint64_t>(b, kVocabSize, uint64_t{1} << 63); }},
      {"vocabulary too small", "token 299", true, [](std::string& b) { put<uint64_t>(b, kVocabSize, 299); }},
      {"no tokens", "0 tokens", true, [](std::string& b) { put<uint64_t>(b, kTokenCount, 0); }},
      {"one token more", "the header describes", true,
       [](std::string& b) { put<uint64_t>(b, kTokenCount, 1005); }},
      {"tokens beyond the file", "tokens of 2 bytes", true,
       [](std::string& b) { put<uint64_t>(b, kTokenCount, 1 << 20); }},
      {"tokens 2^63", "tokens of 2 bytes", true,
       [](std::string& b) { put<uint64_t>(b, kTokenCount, uint64_t{1} << 63); }},
      {"tokens 2^64-1", "tokens of 2 bytes", true,
       [](std::string& b) { put<uint64_t>(b, kTokenCount, UINT64_MAX); }},
      {"documents 2", "the header describes", true,
       [](std::string& b) { put<uint64_t>(b, kDocumentCount, 2); }},
      {"documents 2^61", "documents of", true,
       [](std::string& b) { put<uint64_t>(b, kDocumentCount, uint64_t{1} << 61); }},
      {"documents 2^64-1", "documents of", true,
       [](std::string& b) { put<uint64_t>(b, kDocumentCount, UINT64_MAX); }},
      {"text bytes 2^63", "bytes of text", true,
       [](std::string& b) { put<uint64_t>(b, kTextBytes, uint64_t{1} << 63); }},
      {"endless fingerprint", "unterminated", true,
       [](std::string& b) { std::memset(b.data() + kTokenizer, 'x', 96); }},
      {"content hash", "content hash", true, [](std::string& b) { b[kContentHash] ^= 1; }},
      {"truncated tail", "the header describes", false, [](std::string& b) { b.resize(b.size() - 1); }},
      {"truncated tokens", "tokens of 2 bytes", false, [](std::string& b) { b.resize(kHeader + 1000); }},
      {"appended byte", "the header describes", false, [](std::string& b) { b += 'x'; }},
      {"token outside the vocabulary", "token 65535", false,
       [](std::string& b) { put<uint16_t>(b, kHeader + 20, 65535); }},
      {"bit flip in a token", "content hash", false, [](std::string& b) { b[kHeader + 20] ^= 1; }},
      {"padding not zero", "content hash", false, [&](std::string& b) { b[starts - 1] = 1; }},
      {"starts not increasing", "starts at token", false,
       [&](std::string& b) { put<uint64_t>(b, starts + 8, 0); }},
      {"starts beyond the tokens", "content hash", false,
       [&](std::string& b) { put<uint64_t>(b, starts + 16, 1001); }},
      {"start 2^64-1", "content hash", false,
       [&](std::string& b) { put<uint64_t>(b, starts + 8, UINT64_MAX); }},
  };
  for (const Corruption& corruption : table) {
    INFO(corruption.name);
    std::string bad = good;
    corruption.apply(bad);
    if (corruption.sealed) seal_header(bad);
    write_file(path, bad);
    CHECK_THAT(error_of([&] { use_shard(path); }),
               Contains(corruption.message) && Contains(path.string()) && Contains("titan data prepare"));
  }
}

TEST_CASE("random damage never gets past the checks") {
  const TempDir dir;
  const auto path = dir / "a.tokens";
  write_counting_shard(path, 0, 50, {0, 10}, 300);
  const std::string good = read_file(path);
  std::mt19937 random(1);
  for (int i = 0; i < 300; ++i) {
    std::string bad = good;
    for (uint32_t changes = 1 + random() % 4; changes > 0; --changes)
      bad[random() % bad.size()] = static_cast<char>(random());
    if (random() % 4 == 0)
      bad.resize(random() % bad.size());
    else if (random() % 2 == 0)
      seal_header(bad);
    if (bad == good) continue;
    write_file(path, bad);
    const std::string message = error_of([&] { use_shard(path); });
    if (message.empty()) {  // only fields that carry no structure may change under a right header hash
      std::string content = bad.substr(kHeader);
      CHECK(content == good.substr(kHeader));
      CHECK(XXH3_64bits(bad.data(), kHeaderHash) != XXH3_64bits(good.data(), kHeaderHash));
    }
  }
}
