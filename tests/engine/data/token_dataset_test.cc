#include "engine/data/token_dataset.h"

#include "tests/engine/data/data_files.h"
#include "tests/support/temp_dir.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <numeric>

using namespace titan;
using namespace titan::test;
using Catch::Contains;
using Ints = std::vector<int32_t>;

namespace {

struct Window {
  explicit Window(int64_t seq_len)
      : tokens(static_cast<size_t>(seq_len)), labels(tokens), positions(tokens), doc_start(tokens) {}
  SequenceView view() { return {tokens, labels, positions, doc_start}; }
  Ints tokens, labels, positions, doc_start;
};

Window read(const TokenDataset& dataset, int64_t window) {
  Window out(dataset.seq_len());
  dataset.read_window(window, out.view());
  return out;
}

Ints range(int32_t first, int32_t count) {
  Ints out(static_cast<size_t>(count));
  std::iota(out.begin(), out.end(), first);
  return out;
}

}  // namespace

TEST_CASE("windows cross shards, and labels are the tokens one later") {
  const TempDir dir;
  std::vector<std::filesystem::path> shards;
  int64_t first = 0;
  for (const int64_t tokens : {7, 1, 1, 30, 2}) {
    shards.push_back(dir / fmt::format("{}.tokens", first));
    write_counting_shard(shards.back(), first, tokens, {});
    first += tokens;
  }
  const TokenDataset dataset(shards, 5, false);
  CHECK(dataset.token_count() == 41);
  REQUIRE(dataset.windows() == 8);
  for (int32_t i = 0; i < 8; ++i) {
    const Window window = read(dataset, i);
    CHECK(window.tokens == range(5 * i, 5));
    CHECK(window.labels == range(5 * i + 1, 5));
    CHECK(window.positions == range(0, 5));
    CHECK(window.doc_start == Ints(5, 0));
  }
}

TEST_CASE("the last window needs one token more than its inputs") {
  const TempDir dir;
  for (const auto& [tokens, windows] : {std::pair{6, 1}, {10, 1}, {11, 2}}) {
    write_counting_shard(dir / "a.tokens", 0, tokens, {0});
    CHECK(TokenDataset({dir / "a.tokens"}, 5, false).windows() == windows);
  }
  write_counting_shard(dir / "a.tokens", 0, 5, {0});
  CHECK_THAT(error_of([&] { TokenDataset({dir / "a.tokens"}, 5, false); }),
             Contains("5 tokens") && Contains("seq_len"));
}

TEST_CASE("doc_start is the in-window position of the document's first token") {
  const TempDir dir;
  // Documents at 0, 3, 4, 10, 17 and 20 of the stream; the one at 10 goes on into the second shard.
  write_counting_shard(dir / "a.tokens", 0, 14, {0, 3, 4, 10});
  write_counting_shard(dir / "b.tokens", 14, 15, {3, 6});
  const std::vector<std::filesystem::path> shards{dir / "a.tokens", dir / "b.tokens"};
  const TokenDataset masked(shards, 7, true);
  CHECK(read(masked, 0).doc_start == Ints{0, 0, 0, 3, 4, 4, 4});
  CHECK(read(masked, 1).doc_start == Ints{0, 0, 0, 3, 3, 3, 3});
  CHECK(read(masked, 2).doc_start == Ints{0, 0, 0, 3, 3, 3, 6});
  CHECK(read(masked, 3).doc_start == Ints(7, 0));
  CHECK(read(TokenDataset(shards, 7, false), 0).doc_start == Ints(7, 0));
}

TEST_CASE("doc_start equals a plain count over the whole stream") {
  const TempDir dir;
  const std::vector<int64_t> starts{0, 1, 2, 5, 31, 32, 33, 63, 64, 65, 96, 130, 131, 199};
  write_counting_shard(dir / "a.tokens", 0, 200, starts);
  for (const int64_t seq_len : {1, 3, 16, 32, 33, 199}) {
    const TokenDataset dataset({dir / "a.tokens"}, seq_len, true);
    for (int64_t i = 0; i < dataset.windows(); ++i) {
      const Window window = read(dataset, i);
      for (int64_t t = 0; t < seq_len; ++t) {
        const int64_t position = i * seq_len + t;
        const int64_t start = *std::prev(std::upper_bound(starts.begin(), starts.end(), position));
        REQUIRE(window.doc_start[static_cast<size_t>(t)] == std::max<int64_t>(0, start - i * seq_len));
      }
    }
  }
}

TEST_CASE("shards of different tokenizers do not mix") {
  const TempDir dir;
  write_counting_shard(dir / "a.tokens", 0, 10, {0}, 300);
  write_counting_shard(dir / "b.tokens", 0, 10, {0}, 301);
  CHECK_THAT(error_of([&] {
               TokenDataset({dir / "a.tokens", dir / "b.tokens"}, 5, false);
             }),
             Contains("one tokenizer"));
}

TEST_CASE("the validation split is the tail, and never all") {
  const auto check = [](int64_t windows, double fraction, int64_t held_out) {
    const WindowSplit split = split_windows(windows, fraction);
    CHECK(split.training.first == 0);
    CHECK(split.training.count == windows - held_out);
    CHECK(split.validation.first == windows - held_out);
    CHECK(split.validation.count == held_out);
  };
  check(1000, 0.0, 0);
  check(1, 0.0, 0);
  check(1000, 0.05, 50);
  check(10, 0.001, 1);
  check(2, 0.999, 1);
  CHECK_THAT(error_of([] { split_windows(1, 0.1); }), Contains("cannot be split"));
  CHECK_THAT(error_of([] { split_windows(10, 1.0); }), Contains("below 1"));
  CHECK_THAT(error_of([] { split_windows(10, -0.1); }), Contains("at least 0"));
  CHECK_THAT(error_of([] { split_windows(10, std::nan("")); }), Contains("nan"));
}
