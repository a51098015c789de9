#include <catch2/catch.hpp>
#include <cstring>
#include <thread>

#include "kernels/base/error.h"
#include "kernels/cpu/cpu_backend.h"
#include "parallelism/comm/thread_communicator.h"
#include "tests/support/commands.h"

namespace titan::cpu {
namespace {

using test::CommandList;
using test::operand;

Fill fill(ValueId value, std::int64_t n, float x) {
  return {.y = operand<Out>(value, DType::f32, 1, n), .value = x};
}
Add add(ValueId a, ValueId b, ValueId y, std::int64_t n) {
  return {.a = operand<In>(a, DType::f32, 1, n),
          .b = operand<In>(b, DType::f32, 1, n),
          .y = operand<Out>(y, DType::f32, 1, n)};
}
/// Fails its check: the shapes differ.
Copy broken() { return {.x = operand<In>(0, DType::f32, 1, 1), .y = operand<Out>(1, DType::f32, 1, 2)}; }

/// `count` values of n floats in one block of the backend.
std::vector<std::byte*> values(Backend& backend, int count, std::int64_t n) {
  std::byte* block = backend.allocate(Space::device, count * n * 4);
  std::vector<std::byte*> addresses;
  for (int i = 0; i < count; ++i) addresses.push_back(block + i * n * 4);
  return addresses;
}

float first(const std::byte* address) {
  float x;
  std::memcpy(&x, address, sizeof x);
  return x;
}

TEST_CASE("allocated memory is zero, stays, and must exist") {
  const auto backend = make_cpu_backend({.threads = 2});
  constexpr std::int64_t kBytes = 20 << 20;
  std::byte* device = backend->allocate(Space::device, kBytes);
  std::byte* host = backend->allocate(Space::host, 100);
  REQUIRE(device != nullptr);
  CHECK(std::count(device, device + kBytes, std::byte{0}) == kBytes);
  CHECK(std::count(host, host + 100, std::byte{0}) == 100);
  std::fill(device, device + kBytes, std::byte{1});
  const float x = 3;
  float y = 0;
  backend->upload(&x, device, sizeof x);
  backend->download(device, &y, sizeof y);
  CHECK(y == 3);
  CHECK_THROWS_WITH(backend->allocate(Space::device, std::int64_t{1} << 50),
                    Catch::Contains("not enough memory: 1048576.00 GiB") && Catch::Contains("available"));
  CHECK_THROWS_AS(backend->allocate(Space::device, std::int64_t{1} << 50), UserError);
}

TEST_CASE("lanes wait for each other: a chain through four lanes, many times") {
  const auto backend = make_cpu_backend({.threads = 1});
  constexpr std::int64_t kN = 1000;
  constexpr int kLanes = 4, kRounds = 50;
  CommandList list(values(*backend, 2, kN));
  list.add(0, fill(0, kN, 0));
  Wait last = list.add(0, fill(1, kN, 1));
  for (int i = 0; i < kLanes * kRounds; ++i) last = list.add((i + 1) % kLanes, add(0, 1, 0, kN), {last});
  for (int repeat = 0; repeat < 10; ++repeat) {
    backend->execute(list.commands(), nullptr, {});
    CHECK(first(list.commands()[0].binding.addresses[0]) == kLanes * kRounds);
  }
}

TEST_CASE("what runs on the host keeps its lane's order and waits, with and without a thread of its own") {
  const bool host_thread = GENERATE(false, true);
  const auto backend = make_cpu_backend({.threads = 1, .host_thread = host_thread});
  constexpr std::int64_t kN = 1000;
  constexpr int kHost = 7, kCopies = 3, kRounds = 40;
  CommandList list(values(*backend, 3, kN));
  list.add(0, fill(0, kN, 1));
  Wait last = list.add(0, fill(1, kN, 0));
  for (int i = 0; i < kRounds; ++i) {
    last = list.add(kHost, add(0, 1, 2, kN), {last});    // 2 = 1 + what was there
    last = list.add(kCopies, add(2, 2, 1, kN), {last});  // doubled by another lane
    last = list.add(0, add(0, 1, 1, kN), {last});
    if (i % 10 == 9) last = list.add(0, fill(1, kN, 0), {last});
  }
  for (Command& command : list.mutable_commands()) command.on_host = command.lane == kHost;
  for (int repeat = 0; repeat < 5; ++repeat) {
    backend->execute(list.commands(), nullptr, {});
    float expected = 0, host = 0;
    for (int i = 0; i < 10; ++i) {
      host = expected + 1;
      expected = 2 * host + 1;
    }
    CHECK(first(list.commands()[0].binding.addresses[2]) == host);
  }
}

TEST_CASE("an error on the host cancels the others, with and without a thread of its own") {
  const bool host_thread = GENERATE(false, true);
  const auto backend = make_cpu_backend({.threads = 1, .host_thread = host_thread});
  CommandList list(values(*backend, 3, 4));
  const Wait start = list.add(0, fill(0, 4, 1));
  const Wait failed = list.add(7, broken(), {start});
  list.add(3, fill(2, 4, 5), {failed});
  list.add(0, fill(1, 4, 5), {{3, 1}});
  list.mutable_commands()[1].on_host = true;
  CHECK_THROWS_AS(backend->execute(list.commands(), nullptr, {}), CommandError);
  CHECK(first(list.commands()[0].binding.addresses[1]) == 0);
}

TEST_CASE("lanes fan out and join") {
  const auto backend = make_cpu_backend({.threads = 2});
  constexpr std::int64_t kN = 100000;
  CommandList list(values(*backend, 4, kN));
  const Wait start = list.add(0, fill(0, kN, 1));
  const Wait left = list.add(1, add(0, 0, 1, kN), {start}), right = list.add(2, add(0, 0, 2, kN), {start});
  const Wait join = list.add(0, add(1, 2, 3, kN), {left, right});
  list.add(1, add(3, 3, 1, kN), {join});
  backend->execute(list.commands(), nullptr, {});
  CHECK(first(list.commands()[0].binding.addresses[1]) == 8);
}

TEST_CASE("the first error cancels the other lanes and names its command") {
  const auto backend = make_cpu_backend({.threads = 1});
  CommandList list(values(*backend, 3, 4));
  list.add(0, fill(0, 4, 1));
  const Wait failed = list.add(1, broken(), {{0, 1}});
  list.add(2, fill(2, 4, 5), {failed});
  list.add(0, fill(1, 4, 5), {failed, {2, 1}});
  try {
    backend->execute(list.commands(), nullptr, {});
    FAIL("no error");
  } catch (const CommandError& error) {
    CHECK(error.index() == 1);
    CHECK_THAT(error.what(), Catch::Contains("check failed") && Catch::Contains("1 vs 2"));
  }
  CHECK(first(list.commands()[0].binding.addresses[1]) == 0);
  CHECK(first(list.commands()[0].binding.addresses[2]) == 0);
  CommandList good(values(*backend, 1, 4));  // the backend still works
  good.add(2, fill(0, 4, 7));
  backend->execute(good.commands(), nullptr, {});
  CHECK(first(good.commands()[0].binding.addresses[0]) == 7);
}

TEST_CASE("a wait for a command that comes later, or a wrong ticket, is refused before anything runs") {
  const auto backend = make_cpu_backend({.threads = 1});
  CommandList late(values(*backend, 1, 4));
  late.add(0, fill(0, 4, 1), {{1, 1}});
  late.add(1, fill(0, 4, 1), {{0, 1}});
  CHECK_THROWS_AS(backend->execute(late.commands(), nullptr, {}), InternalError);
  CommandList wrong(values(*backend, 1, 4));
  wrong.add(0, fill(0, 4, 1));
  wrong.mutable_commands()[0].ticket = 2;
  CHECK_THROWS_AS(backend->execute(wrong.commands(), nullptr, {}), InternalError);
}

TEST_CASE("an accumulating GEMM overwrites where the binding says so") {
  const auto backend = make_cpu_backend({.threads = 2});
  CommandList list(values(*backend, 3, 4));
  Gemm gemm{.a = operand<In>(0, DType::f32, 2, 2),
            .b = operand<In>(1, DType::f32, 2, 2),
            .c = operand<Result>(2, DType::f32, 2, 2),
            .workspace = {},
            .transpose_b = true};
  gemm.c.accumulates = true;
  list.add(0, fill(0, 4, 1));
  list.add(0, fill(1, 4, 1));
  list.add(0, fill(2, 4, 100));
  list.add(0, gemm, {}, 0b100);
  list.add(0, gemm);
  backend->execute(list.commands(), nullptr, {});
  CHECK(first(list.commands()[0].binding.addresses[2]) == 4);
}

TEST_CASE("an axis of one rank is a copy") {
  const auto backend = make_cpu_backend({.threads = 1});
  CommandList list(values(*backend, 6, 4));
  ReduceScatter scatter{.full = operand<In>(0, DType::f32, 1, 4),
                        .shard = operand<Result>(2, DType::f32, 1, 4)};
  scatter.shard.accumulates = true;
  list.add(0, fill(0, 4, 3));
  list.add(0,
           AllGather{.shard = operand<In>(0, DType::f32, 1, 4), .full = operand<Out>(1, DType::f32, 1, 4)});
  list.add(0, scatter, {}, 0b10);
  list.add(0, scatter);
  list.add(0, AllReduce{.x = operand<In>(0, DType::f32, 1, 4), .y = operand<Out>(3, DType::f32, 1, 4)});
  list.add(0, Exchange{.sends = {operand<In>(0, DType::f32, 1, 4)},
                       .recvs = {operand<Out>(4, DType::f32, 1, 4)},
                       .send_peers = {0},
                       .recv_peers = {0}});
  backend->execute(list.commands(), nullptr, {});
  const auto* addresses = list.commands()[0].binding.addresses;
  CHECK(first(addresses[1]) == 3);
  CHECK(first(addresses[2]) == 6);
  CHECK(first(addresses[3]) == 3);
  CHECK(first(addresses[4]) == 3);
}

/// Runs body(rank, backend, communicators) on one thread and one single-threaded backend a rank.
template <class F>
void run_ranks(int ranks, F body) {
  ThreadWorld world(ranks);
  AxisGroup all{Axis::dp_shard, {}};
  for (int r = 0; r < ranks; ++r) all.ranks.push_back(r);
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks; ++r)
    threads.emplace_back([&, r] {
      const auto backend = make_cpu_backend({.threads = 1});
      const auto set = world.communicators(r, {&all, 1});
      body(r, *backend, *set);
    });
  for (std::thread& t : threads) t.join();
}

TEST_CASE("thread ranks: compute and two communication lanes") {
  constexpr int kRanks = 3;
  constexpr std::int64_t kN = 64;
  std::vector<float> gathered(kRanks), scattered(kRanks);
  run_ranks(kRanks, [&](int rank, Backend& backend, CommunicatorSet& set) {
    CommandList list(values(backend, 3, kRanks * kN));
    const Wait filled = list.add(0, fill(0, kN, static_cast<float>(rank + 1)));
    const Wait full = list.add(1,
                               AllGather{.shard = operand<In>(0, DType::f32, 1, kN),
                                         .full = operand<Out>(1, DType::f32, kRanks, kN)},
                               {filled});
    const Wait doubled = list.add(0, add(1, 1, 1, kRanks * kN), {full});
    list.add(2,
             ReduceScatter{.full = operand<In>(1, DType::f32, kRanks, kN),
                           .shard = operand<Result>(2, DType::f32, 1, kN)},
             {doubled});
    for (int repeat = 0; repeat < 5; ++repeat) backend.execute(list.commands(), &set, {});
    gathered[rank] = first(list.commands()[0].binding.addresses[1] + 2 * kN * sizeof(float));
    scattered[rank] = first(list.commands()[0].binding.addresses[2]);
  });
  for (int rank = 0; rank < kRanks; ++rank) {
    CHECK(gathered[rank] == 6);
    CHECK(scattered[rank] == static_cast<float>(6 * (rank + 1)));
  }
}

TEST_CASE("a failing rank wakes the ranks that wait for it") {
  std::vector<std::string> errors(2);
  run_ranks(2, [&](int rank, Backend& backend, CommunicatorSet& set) {
    CommandList list(values(backend, 2, 2));
    if (rank == 0) list.add(0, broken());
    list.add(1, AllReduce{.x = operand<In>(0, DType::f32, 1, 1), .y = operand<Out>(1, DType::f32, 1, 1)},
             rank == 0 ? std::initializer_list<Wait>{{0, 1}} : std::initializer_list<Wait>{});
    try {
      backend.execute(list.commands(), &set, {});
    } catch (const CommandError& error) {
      errors[rank] = error.what();
    }
  });
  CHECK_THAT(errors[0], Catch::Contains("check failed"));
  CHECK_THAT(errors[1], Catch::Contains("another rank has failed"));
}

TEST_CASE("doctor: what the backend will use") {
  const std::string own = describe_cpu_backend({.threads = 1, .isa = Isa::baseline});
  CHECK_THAT(own, Catch::Contains("instruction set: baseline") && Catch::Contains("threads: 1 of") &&
                      Catch::Contains("bf16 GEMM: titan's own, baseline"));
  CHECK_THAT(describe_cpu_backend({.threads = 1, .gemm = GemmChoice::onednn}),
             Catch::Contains("f32 GEMM: oneDNN 2"));
}

}  // namespace
}  // namespace titan::cpu
