#include "parallelism/comm/thread_communicator.h"

#include <catch2/catch.hpp>
#include <chrono>
#include <cmath>
#include <functional>
#include <limits>
#include <thread>

#include "kernels/base/bf16.h"
#include "parallelism/comm/reduce.h"

namespace titan {
namespace {

/// Runs body(rank, communicators) on one thread a rank, all on one axis; returns what each rank threw.
std::vector<std::string> run_ranks(int ranks, const std::function<void(int, CommunicatorSet&)>& body) {
  ThreadWorld world(ranks);
  AxisGroup all{Axis::dp_shard, {}};
  for (int r = 0; r < ranks; ++r) all.ranks.push_back(r);
  std::vector<std::string> errors(ranks);
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks; ++r)
    threads.emplace_back([&, r] {
      const auto set = world.communicators(r, {&all, 1});
      try {
        body(r, *set);
      } catch (const std::exception& error) {
        errors[r] = error.what();
        set->abort_all();
      }
    });
  for (std::thread& t : threads) t.join();
  return errors;
}

void check_no_errors(const std::vector<std::string>& errors) {
  for (const std::string& error : errors) CHECK(error == "");
}

TEST_CASE("all-gather concatenates in rank order, also in place") {
  constexpr int kRanks = 3, kCount = 5;
  std::vector<std::vector<float>> full(kRanks, std::vector<float>(kRanks * kCount));
  check_no_errors(run_ranks(kRanks, [&](int rank, CommunicatorSet& set) {
    float* shard = full[rank].data() + rank * kCount;
    for (int i = 0; i < kCount; ++i) shard[i] = static_cast<float>(10 * rank + i);
    for (int repeat = 0; repeat < 20; ++repeat)
      set.get(Axis::dp_shard, 1).all_gather(shard, full[rank].data(), kCount * sizeof(float), nullptr);
  }));
  for (const auto& f : full)
    for (int i = 0; i < kRanks * kCount; ++i)
      CHECK(f[i] == static_cast<float>(10 * (i / kCount) + i % kCount));
}

TEST_CASE("reduce-scatter sums in f32 in rank order and rounds once") {
  constexpr int kRanks = 3, kCount = 1500;
  // 2^24 + 1 + 1 in f32, left to right, loses both ones; any other order keeps them.
  std::vector<std::vector<float>> shard(kRanks, std::vector<float>(kCount, 4.0f));
  check_no_errors(run_ranks(kRanks, [&](int rank, CommunicatorSet& set) {
    std::vector<float> full(kRanks * kCount, rank == 0 ? 16777216.0f : 1.0f);
    set.get(Axis::dp_shard, 0)
        .reduce_scatter(full.data(), DType::f32, shard[rank].data(), DType::f32, kCount, rank == 1, nullptr);
  }));
  CHECK(shard[0] == std::vector<float>(kCount, 16777216.0f));
  CHECK(shard[1] == std::vector<float>(kCount, 16777220.0f));
}

TEST_CASE("bf16 reductions round once") {
  const bf16 one = to_bf16(1.0f), small = to_bf16(1.0f / 256);
  const bf16* parts[] = {&one, &small, &small};
  const void* pointers[] = {parts[0], parts[1], parts[2]};
  bf16 y;
  reduce(pointers, DType::bf16, &y, DType::bf16, 1, Reduction::sum, false);
  CHECK(to_float(y) == 1.0078125f);  // each addition alone would round back to 1
}

TEST_CASE("all-reduce in place: every rank has the same sums and maxima") {
  constexpr int kRanks = 4;
  for (const int count : {1, 3, 10, 4099}) {
    std::vector<std::vector<float>> sums(kRanks), maxima(kRanks);
    check_no_errors(run_ranks(kRanks, [&](int rank, CommunicatorSet& set) {
      Communicator& c = set.get(Axis::dp_shard, 0);
      std::vector<float>&sum = sums[rank], &maximum = maxima[rank];
      for (int i = 0; i < count; ++i) {
        sum.push_back(static_cast<float>(rank + i));
        maximum.push_back(static_cast<float>(i % kRanks == rank ? i : -i));
      }
      c.all_reduce(sum.data(), sum.data(), DType::f32, count, Reduction::sum, nullptr);
      c.all_reduce(maximum.data(), maximum.data(), DType::f32, count, Reduction::max, nullptr);
    }));
    for (int rank = 0; rank < kRanks; ++rank)
      for (int i = 0; i < count; ++i) {
        REQUIRE(sums[rank][i] == static_cast<float>(6 + 4 * i));
        REQUIRE(maxima[rank][i] == static_cast<float>(i));
      }
  }
}

TEST_CASE("a NaN survives a maximum") {
  const float one = 1, nan = std::numeric_limits<float>::quiet_NaN();
  for (const auto& [a, b] : {std::pair{&one, &nan}, std::pair{&nan, &one}}) {
    const void* parts[] = {a, b};
    float y = 0;
    reduce(parts, DType::f32, &y, DType::f32, 1, Reduction::max, false);
    CHECK(std::isnan(y));
  }
}

TEST_CASE("exchange: a ring, all sends in flight together; bystanders take no part") {
  constexpr int kRanks = 4, kRing = 3;
  std::vector<int> received(kRanks, -1);
  check_no_errors(run_ranks(kRanks, [&](int rank, CommunicatorSet& set) {
    if (rank == kRing) return;
    const SendBuffer send{&rank, sizeof rank, (rank + 1) % kRing};
    const RecvBuffer recv{&received[rank], sizeof rank, (rank + kRing - 1) % kRing};
    set.get(Axis::dp_shard, 2).exchange({&send, 1}, {&recv, 1}, nullptr);
  }));
  CHECK(received == std::vector<int>{2, 0, 1, -1});
}

TEST_CASE("messages of one pair arrive in order") {
  std::vector<int> received(2);
  check_no_errors(run_ranks(2, [&](int rank, CommunicatorSet& set) {
    Communicator& c = set.get(Axis::dp_shard, 0);
    const int values[] = {7, 8};
    const SendBuffer sends[] = {{&values[0], sizeof(int), 1}, {&values[1], sizeof(int), 1}};
    const RecvBuffer recvs[] = {{&received[0], sizeof(int), 0}, {&received[1], sizeof(int), 0}};
    if (rank == 0)
      c.exchange(sends, {}, nullptr);
    else
      c.exchange({}, recvs, nullptr);
  }));
  CHECK(received == std::vector<int>{7, 8});
}

TEST_CASE("sizes that differ are an error that names both") {
  const auto errors = run_ranks(2, [&](int rank, CommunicatorSet& set) {
    std::int64_t buffer[2] = {};
    const SendBuffer send{buffer, 16, 1};
    const RecvBuffer recv{buffer, 8, 0};
    if (rank == 0)
      set.get(Axis::dp_shard, 0).exchange({&send, 1}, {}, nullptr);
    else
      set.get(Axis::dp_shard, 0).exchange({}, {&recv, 1}, nullptr);
  });
  CHECK(errors[1] == "rank 1 receives 8 bytes from rank 0, which sends 16");
  CHECK(errors[0] == "communication aborted: another rank has failed");
}

TEST_CASE("abort wakes every rank, whatever it waits for, and forbids later calls") {
  const auto errors = run_ranks(4, [&](int rank, CommunicatorSet& set) {
    float x = 0;
    std::vector<float> full(4);
    const RecvBuffer recv{&x, sizeof x, 0};
    if (rank == 1) set.get(Axis::dp_shard, 0).all_gather(&x, full.data(), sizeof x, nullptr);
    if (rank == 2) set.get(Axis::dp_shard, 0).exchange({}, {&recv, 1}, nullptr);
    if (rank == 3) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      set.get(Axis::dp_shard, 7).all_reduce(&x, &x, DType::f32, 1, Reduction::sum, nullptr);
    }
    if (rank == 0) throw std::runtime_error("planted");
  });
  CHECK(errors[0] == "planted");
  for (int rank = 1; rank < 4; ++rank)
    CHECK(errors[rank] == "communication aborted: another rank has failed");
}

TEST_CASE("axes and lanes are separate; an unknown axis has this rank alone") {
  ThreadWorld world(4);
  std::vector<float> results(4);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 4; ++rank)
    threads.emplace_back([&, rank] {
      const std::vector<AxisGroup> groups = {{Axis::tp, {rank / 2 * 2, rank / 2 * 2 + 1}},
                                             {Axis::dp_shard, {rank % 2, rank % 2 + 2}}};
      const auto set = world.communicators(rank, groups);
      float x = static_cast<float>(rank);
      set->get(Axis::tp, 0).all_reduce(&x, &x, DType::f32, 1, Reduction::sum, nullptr);
      set->get(Axis::dp_shard, 1).all_reduce(&x, &x, DType::f32, 1, Reduction::sum, nullptr);
      set->get(Axis::cp, 0).all_reduce(&x, &x, DType::f32, 1, Reduction::sum, nullptr);
      if (set->get(Axis::tp, 0).rank() != rank % 2 || set->get(Axis::cp, 0).size() != 1) x = -1;
      results[rank] = x;
    });
  for (std::thread& t : threads) t.join();
  CHECK(results == std::vector<float>(4, 6.0f));
}

}  // namespace
}  // namespace titan
