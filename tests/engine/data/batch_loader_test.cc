#include "engine/data/batch_loader.h"

#include "engine/data/validation_set.h"
#include "tests/engine/data/data_files.h"
#include "tests/support/temp_dir.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <map>
#include <memory>
#include <thread>

using namespace titan;
using namespace titan::test;
using Catch::Contains;

namespace {

constexpr int64_t kSeqLen = 4;

/// Token i of the stream is i, so the first token of a sequence says which window it is.
class CountingData {
 public:
  explicit CountingData(int64_t windows) {
    write_counting_shard(dir_ / "a.tokens", 0, windows * kSeqLen + 1, {0});
    dataset_ = std::make_unique<TokenDataset>(std::vector{dir_ / "a.tokens"}, kSeqLen, false);
  }
  const TokenDataset& dataset() const { return *dataset_; }
  std::filesystem::path shard() const { return dir_ / "a.tokens"; }

 private:
  TempDir dir_;
  std::unique_ptr<TokenDataset> dataset_;
};

/// The windows of a batch; checks that masked sequences are masked throughout and come last.
std::vector<int64_t> windows_of(const Batch& batch) {
  std::vector<int64_t> windows;
  bool masked_seen = false;
  int64_t valid = 0;
  for (const MicroBatch& m : batch.micro_batches) {
    REQUIRE(m.labels.size() == m.tokens.size());
    for (size_t row = 0; row < m.tokens.size(); row += kSeqLen) {
      const bool masked = m.labels[row] == kIgnoredLabel;
      for (size_t t = row; t < row + kSeqLen; ++t) {
        REQUIRE(m.positions[t] == static_cast<int32_t>(t - row));
        REQUIRE(m.labels[t] == (masked ? kIgnoredLabel : m.tokens[t] + 1));
        if (masked) REQUIRE(m.tokens[t] == 0);
        valid += !masked;
      }
      REQUIRE((masked || !masked_seen));
      masked_seen |= masked;
      if (!masked) windows.push_back(m.tokens[row] / kSeqLen);
    }
  }
  REQUIRE(batch.valid_tokens == valid);
  return windows;
}

BatchLoaderOptions options_for(int64_t dp_rank, int64_t dp_size, int64_t global_batch, BatchShape shape) {
  return {.dp_rank = dp_rank, .dp_size = dp_size, .global_batch = global_batch, .shape = shape, .seed = 11};
}

}  // namespace

TEST_CASE("every sample exactly once while the number of ranks changes") {
  const CountingData data(101);
  const int64_t global_batch = 6;
  const SampleOrder order(101, 11);
  std::map<int64_t, int> seen;
  int64_t consumed = 0;
  struct Phase {
    int64_t dp_size, steps;
    BatchShape shape;
  };
  for (const Phase& phase : {Phase{1, 3, {6, 1}}, Phase{4, 5, {1, 2}}, Phase{2, 4, {1, 3}},
                             Phase{7, 2, {1, 1}}, Phase{3, 3, {2, 2}}}) {
    std::vector<std::unique_ptr<BatchLoader>> ranks;
    for (int64_t rank = 0; rank < phase.dp_size; ++rank) {
      const BatchLoaderOptions options = options_for(rank, phase.dp_size, global_batch, phase.shape);
      ranks.push_back(std::make_unique<BatchLoader>(
          std::vector<DataPart>{{&data.dataset(), data.dataset().all()}}, options, consumed));
    }
    for (int64_t step = 0; step < phase.steps; ++step) {
      std::vector<int64_t> all;
      for (const auto& loader : ranks) {
        const Batch batch = loader->next();
        CHECK(batch.first_sample == consumed);
        const std::vector<int64_t> windows = windows_of(batch);
        all.insert(all.end(), windows.begin(), windows.end());
      }
      std::vector<int64_t> expected;
      for (int64_t k = consumed; k < consumed + global_batch; ++k) expected.push_back(order(k));
      CHECK(all == expected);
      for (const int64_t window : all) ++seen[window];
      consumed += global_batch;
      for (const auto& loader : ranks) CHECK(loader->samples_consumed() == consumed);
    }
  }
  REQUIRE(consumed == 102);  // one epoch of 101 and one sample of the next
  CHECK(seen.size() == 101);
}

TEST_CASE("a resumed loader goes on bitwise, from any step") {
  const CountingData data(23);
  const BatchLoaderOptions options = options_for(1, 2, 4, {2, 1});
  std::vector<Batch> straight;
  BatchLoader loader({{&data.dataset(), data.dataset().all()}}, options, 0);
  for (int i = 0; i < 14; ++i) straight.push_back(loader.next());
  for (int64_t start = 0; start < 14; ++start) {
    BatchLoader resumed({{&data.dataset(), data.dataset().all()}}, options, 4 * start);
    CHECK(resumed.samples_consumed() == 4 * start);
    for (auto step = static_cast<size_t>(start); step < 14; ++step) {
      const Batch batch = resumed.next();
      CHECK(batch.first_sample == straight[step].first_sample);
      CHECK(batch.epoch == straight[step].epoch);
      for (size_t m = 0; m < 2; ++m) {
        CHECK(batch.micro_batches[m].tokens == straight[step].micro_batches[m].tokens);
        CHECK(batch.micro_batches[m].labels == straight[step].micro_batches[m].labels);
      }
    }
  }
}

TEST_CASE("the epoch of a step is reported") {
  const CountingData data(10);
  BatchLoader loader({{&data.dataset(), data.dataset().all()}}, options_for(0, 1, 4, {1, 4}), 0);
  std::vector<int64_t> epochs;
  for (int i = 0; i < 6; ++i) epochs.push_back(loader.next().epoch);
  CHECK(epochs == std::vector<int64_t>{0, 0, 1, 1, 1, 2});
}

TEST_CASE("training windows stay in their range") {
  const CountingData data(50);
  const WindowSplit split = split_windows(50, 0.2);
  BatchLoader loader({{&data.dataset(), split.training}}, options_for(0, 1, 5, {1, 5}), 0);
  std::map<int64_t, int> seen;
  for (int step = 0; step < 16; ++step) {
    for (const int64_t window : windows_of(loader.next())) ++seen[window];
  }
  CHECK(seen.size() == 40);
  for (const auto& [window, times] : seen) {
    CHECK(window < 40);
    CHECK(times == 2);
  }
}

TEST_CASE("ranks without a share run masked sequences") {
  const CountingData data(20);
  int64_t valid = 0;
  for (int64_t rank = 0; rank < 5; ++rank) {
    BatchLoader loader({{&data.dataset(), data.dataset().all()}}, options_for(rank, 5, 3, {2, 2}), 0);
    const Batch batch = loader.next();
    CHECK(batch.micro_batches.size() == 2);
    CHECK(windows_of(batch).size() <= 1);
    valid += batch.valid_tokens;
  }
  CHECK(valid == 3 * kSeqLen);
}

TEST_CASE("shares of ranks differ by at most one and cover the batch") {
  for (int64_t global_batch = 1; global_batch < 40; ++global_batch) {
    for (int64_t ranks = 1; ranks < 12; ++ranks) {
      int64_t next = 0;
      for (int64_t rank = 0; rank < ranks; ++rank) {
        const RankShare share = rank_share(global_batch, rank, ranks);
        CHECK(share.begin == next);
        next = share.end;
        CHECK((share.end - share.begin == global_batch / ranks ||
               share.end - share.begin == global_batch / ranks + 1));
      }
      CHECK(next == global_batch);
    }
  }
}

TEST_CASE("a global batch that does not fit is refused with its numbers") {
  const CountingData data(20);
  const auto error = [&](int64_t global_batch, int64_t dp_size, BatchShape shape) {
    return error_of([&] {
      BatchLoader({{&data.dataset(), data.dataset().all()}}, options_for(0, dp_size, global_batch, shape), 0);
    });
  };
  CHECK_THAT(error(9, 2, {2, 2}),
             Contains("global batch of 9") && Contains("gives a rank 5") && Contains("hold only 4"));
  CHECK_THAT(error(0, 1, {1, 1}), Contains("at least 1"));
  CHECK(error(8, 2, {2, 2}).empty());
}

TEST_CASE("what the prefetch thread throws comes out of next, every time") {
  const CountingData data(20);
  {
    std::fstream shard(data.shard(), std::ios::in | std::ios::out | std::ios::binary);
    shard.seekp(160);
    shard.write("\xFF\xFF\xFF\x7F", 4);  // the first token of window 0, now outside the vocabulary
  }
  BatchLoader loader({{&data.dataset(), data.dataset().all()}}, options_for(0, 1, 5, {1, 5}), 0);
  const auto run = [&] {
    for (int step = 0; step < 4; ++step) loader.next();
  };
  CHECK_THAT(error_of(run), Contains("a.tokens") && Contains("vocabulary"));
  CHECK_THAT(error_of(run), Contains("a.tokens") && Contains("vocabulary"));
}

TEST_CASE("a loader shuts down at any moment") {
  const CountingData data(1000);
  for (int i = 0; i < 50; ++i) {
    BatchLoader loader({{&data.dataset(), data.dataset().all()}}, options_for(0, 1, 64, {8, 8}), 0);
    for (int step = 0; step < i % 4; ++step) loader.next();
    if (i % 3 == 0) std::this_thread::sleep_for(std::chrono::microseconds(100 * i));
  }
}

TEST_CASE("the wait for a batch is measured, and small once batches are ready") {
  const CountingData data(100);
  BatchLoader loader({{&data.dataset(), data.dataset().all()}}, options_for(0, 1, 4, {1, 4}), 0);
  double smallest = loader.next().wait_seconds;
  CHECK(smallest >= 0.0);
  for (int attempt = 0; attempt < 50 && smallest >= 0.002;
       ++attempt) {  // a busy machine may starve the thread
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    smallest = std::min(smallest, loader.next().wait_seconds);
  }
  CHECK(smallest < 0.002);
}

TEST_CASE("validation visits every held-out window once, in as many steps on every rank") {
  const CountingData data(50);
  for (const WindowRange range : {WindowRange{37, 13}, WindowRange{49, 1}, WindowRange{0, 50}}) {
    for (int64_t dp_size = 1; dp_size <= 5; ++dp_size) {
      std::vector<int64_t> all;
      std::vector<int64_t> steps;
      for (int64_t rank = 0; rank < dp_size; ++rank) {
        steps.push_back(ValidationSet({{&data.dataset(), range}}, rank, dp_size, {1, 2}, -1).steps());
      }
      CHECK(steps == std::vector<int64_t>(static_cast<size_t>(dp_size),
                                          (range.count + 2 * dp_size - 1) / (2 * dp_size)));
      for (int64_t step = 0; step < steps[0]; ++step) {
        for (int64_t rank = 0; rank < dp_size; ++rank) {
          const std::vector<int64_t> windows =
              windows_of(ValidationSet({{&data.dataset(), range}}, rank, dp_size, {1, 2}, -1).batch(step));
          all.insert(all.end(), windows.begin(), windows.end());
        }
      }
      std::vector<int64_t> expected;
      for (int64_t i = 0; i < range.count; ++i) expected.push_back(range.first + i);
      CHECK(all == expected);
    }
  }
}

TEST_CASE("validation steps are bounded by the data and by the recipe") {
  const CountingData data(50);
  const auto steps = [&](int64_t max_steps) {
    return ValidationSet({{&data.dataset(), {40, 10}}}, 0, 2, {1, 1}, max_steps).steps();
  };
  CHECK(steps(-1) == 5);
  CHECK(steps(3) == 3);
  CHECK(steps(100) == 5);
  CHECK_THAT(error_of([&] {
               ValidationSet({{&data.dataset(), {50, 0}}}, 0, 1, {1, 1}, -1);
             }),
             Contains("no sequence"));
}

TEST_CASE("a mixture goes on exactly under another number of ranks") {
  TempDir dir;
  write_counting_shard(dir / "a.tokens", 0, 23 * kSeqLen + 1, {0});
  write_counting_shard(dir / "b.tokens", 1000 * kSeqLen, 9 * kSeqLen + 1, {0});
  const TokenDataset a({dir / "a.tokens"}, kSeqLen, false), b({dir / "b.tokens"}, kSeqLen, false);
  // The last windows of a are held out.
  const std::vector<DataPart> parts = {{&a, {0, 20}, 3}, {&b, b.all(), 1}};
  const int64_t global_batch = 6;

  const auto steps = [&](int64_t dp_size, int64_t first, int64_t count) {
    std::vector<std::unique_ptr<BatchLoader>> ranks;
    for (int64_t rank = 0; rank < dp_size; ++rank)
      ranks.push_back(std::make_unique<BatchLoader>(parts, options_for(rank, dp_size, global_batch, {1, 6}),
                                                    first * global_batch));
    std::vector<int64_t> windows;
    for (int64_t step = 0; step < count; ++step) {
      for (const auto& rank : ranks) {
        const std::vector<int64_t> part = windows_of(rank->next());
        windows.insert(windows.end(), part.begin(), part.end());
      }
    }
    return windows;
  };
  std::vector<int64_t> uninterrupted = steps(1, 0, 20);
  std::vector<int64_t> resumed = steps(2, 0, 7);
  for (const int64_t window : steps(5, 7, 13)) resumed.push_back(window);
  CHECK(resumed == uninterrupted);

  std::map<int64_t, int> of_a, of_b;
  for (const int64_t window : uninterrupted) ++(window < 1000 ? of_a : of_b)[window];
  CHECK(of_a.size() == 20);
  CHECK(of_a.rbegin()->first == 19);
  CHECK(of_b.size() == 9);
  int drawn_a = 0;
  for (const auto& [window, times] : of_a) {
    CHECK((times == 4 || times == 5));
    drawn_a += times;
  }
  CHECK(drawn_a == 90);
}

TEST_CASE("validation goes through the parts of a mixture one after the other") {
  TempDir dir;
  write_counting_shard(dir / "a.tokens", 0, 10 * kSeqLen + 1, {0});
  write_counting_shard(dir / "b.tokens", 1000 * kSeqLen, 4 * kSeqLen + 1, {0});
  const TokenDataset a({dir / "a.tokens"}, kSeqLen, false), b({dir / "b.tokens"}, kSeqLen, false);
  std::vector<int64_t> windows;
  const std::vector<DataPart> parts = {{&a, {7, 3}}, {&b, {2, 2}}};
  for (int64_t step = 0; step < 2; ++step) {
    for (int64_t rank = 0; rank < 2; ++rank) {
      const ValidationSet set(parts, rank, 2, {1, 2}, -1);
      REQUIRE(set.steps() == 2);
      const std::vector<int64_t> part = windows_of(set.batch(step));
      windows.insert(windows.end(), part.begin(), part.end());
    }
  }
  CHECK(windows == std::vector<int64_t>{7, 8, 9, 1002, 1003});
}
