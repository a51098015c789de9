// No interface assumes one rank: a hand-built step of two ranks with gathers, a scatter, an exchange, two
// micro-batches that share one slot, and three lanes, from verify to the executor. Also run under
// ThreadSanitizer.
#include <catch2/catch.hpp>
#include <thread>

#include "engine/executor/executor.h"
#include "engine/program/builder.h"
#include "engine/program/verify.h"
#include "kernels/cpu/cpu_backend.h"
#include "parallelism/comm/thread_communicator.h"
#include "parallelism/compile.h"

using namespace titan;

namespace {

constexpr std::int64_t kShard = 96, kFull = 2 * kShard;
constexpr int kMicroBatches = 2;

/// y = x + gathered weights; z = the peer's y; gradient shard += reduce-scatter(y + z) over the
/// micro-batches.
Program two_rank_program(int rank) {
  const int peer = 1 - rank;
  ProgramBuilder b("two");
  const ValueId shard =
      b.value("shard", DType::f32, 1, kShard, {.role = Role::parameter, .lifetime = Lifetime::persistent});
  const ValueId x =
      b.value("x", DType::f32, 1, kFull, {.role = Role::input, .lifetime = Lifetime::micro_batch});
  const ValueId gradient =
      b.value("gradient", DType::f32, 1, kShard, {.role = Role::output, .lifetime = Lifetime::step});
  const ValueId w = b.value("w", DType::f32, 1, kFull), y = b.value("y", DType::f32, 1, kFull);
  const ValueId z = b.value("z", DType::f32, 1, kFull), sum = b.value("sum", DType::f32, 1, kFull);
  b.begin_segment("forward");
  b.emit(AllGather{.shard = b.in(shard), .full = b.out(w)}, Lane::fsdp);
  b.emit(Add{.a = b.in(x), .b = b.in(w), .y = b.out(y)});
  b.emit(Exchange{.sends = {b.in(y)},
                  .recvs = {b.out(z)},
                  .send_peers = {peer},
                  .recv_peers = {peer},
                  .axis = Axis::pp},
         Lane::pp_forward);
  b.begin_segment("backward");
  b.emit(Add{.a = b.in(y), .b = b.in(z), .y = b.out(sum)});
  b.emit(ReduceScatter{.full = b.in(sum), .shard = b.result(gradient, true)}, Lane::fsdp);
  b.begin_segment("optimizer");
  b.emit(CacheWrite{
      .x = b.in(gradient),
      .positions = b.in(b.value("row", DType::i32, 1, 1, {.role = Role::input, .lifetime = Lifetime::step})),
      .cache = b.state(shard)});
  set_accumulation_timeline(b.program(), kMicroBatches);
  return b.take();
}

float x_of(int rank, int micro_batch, std::int64_t i) {
  return static_cast<float>(rank * 1000 + micro_batch * 100) + 0.25f * static_cast<float>(i);
}

const auto both = [](int, Axis) { return std::vector<int>{0, 1}; };

/// What the gradient shard of `rank` is after a step, from plain loops.
std::vector<float> expected_gradient(int rank, const std::vector<float>& w) {
  std::vector<float> gradient(kShard, 0);
  for (int m = 0; m < kMicroBatches; ++m)
    for (std::int64_t i = 0; i < kShard; ++i) {
      const std::int64_t at = rank * kShard + i;
      const float y0 = x_of(0, m, at) + w[static_cast<std::size_t>(at)],
                  y1 = x_of(1, m, at) + w[static_cast<std::size_t>(at)];
      gradient[static_cast<std::size_t>(i)] += (y0 + y1) + (y1 + y0);
    }
  return gradient;
}

void run_rank(int rank, const Program& program, ThreadWorld& world, std::vector<float>& gradient,
              std::vector<float>& weights) {
  Job job;
  job.programs.push_back(program);
  place(job);
  cpu::CpuOptions options;
  options.threads = 1;
  options.bind = false;
  const auto backend = cpu::make_cpu_backend(options);
  const AxisGroup groups[] = {{Axis::dp_shard, {0, 1}}, {Axis::pp, {0, 1}}};
  const auto communicators = world.communicators(rank, groups);
  Executor executor(job, *backend, communicators.get());
  std::vector<float> shard(kShard);
  for (std::int64_t i = 0; i < kShard; ++i)
    shard[static_cast<std::size_t>(i)] = static_cast<float>(rank * kShard + i) / 8;
  executor.write(0, program.at("shard"), shard.data());
  const std::int32_t row = 0;
  executor.write(0, program.at("row"), &row);
  std::vector<float> x(kFull);
  for (int m = 0; m < kMicroBatches; ++m) {
    for (std::int64_t i = 0; i < kFull; ++i) x[static_cast<std::size_t>(i)] = x_of(rank, m, i);
    executor.write(0, program.at("x"), x.data(), m);
  }
  executor.run(0);
  executor.read(0, program.at("gradient"), gradient.data());
  executor.read(0, program.at("shard"), weights.data());
}

}  // namespace

TEST_CASE("two ranks, three lanes, two micro-batches in one slot: verified, placed and run") {
  const Program rank0 = two_rank_program(0), rank1 = two_rank_program(1);
  const Program* all[] = {&rank0, &rank1};
  for (const Program* p : all) {
    REQUIRE_NOTHROW(verify(*p));
    const Program* one[] = {p};
    REQUIRE_NOTHROW(verify_placement(one, place(one)));
  }
  REQUIRE_NOTHROW(verify_all(all, both));

  std::vector<float> w(kFull);
  for (std::int64_t i = 0; i < kFull; ++i) w[static_cast<std::size_t>(i)] = static_cast<float>(i) / 8;
  for (int repeat = 0; repeat < 20; ++repeat) {
    ThreadWorld world(2);
    std::vector<float> gradients[2] = {std::vector<float>(kShard), std::vector<float>(kShard)};
    std::vector<float> weights[2] = {std::vector<float>(kShard), std::vector<float>(kShard)};
    std::thread other([&] { run_rank(1, rank1, world, gradients[1], weights[1]); });
    run_rank(0, rank0, world, gradients[0], weights[0]);
    other.join();
    for (int rank = 0; rank < 2; ++rank) {
      REQUIRE(gradients[rank] == expected_gradient(rank, w));
      REQUIRE(weights[rank] == gradients[rank]);  // the optimizer segment ran last
    }
  }
}

TEST_CASE("the second micro-batch waits for the readers of the slot it takes over") {
  const Program p = two_rank_program(0);
  const auto list = unroll(p);
  const auto finished = [&](int node, Lane lane) {
    return list[static_cast<std::size_t>(node)].before.finished[static_cast<int>(lane)];
  };
  REQUIRE(list.size() == 2 * 5 + 1);
  CHECK(finished(5, Lane::compute) >= 1);     // w is gathered again only after the first Add has read it
  CHECK(finished(6, Lane::pp_forward) >= 1);  // y is overwritten only after it was sent
  CHECK(finished(7, Lane::compute) >= 2);     // z is received again only after it was added
  CHECK(finished(8, Lane::fsdp) >= 2);        // sum is overwritten only after it was scattered
}

TEST_CASE("a failing rank wakes its peer, and the error names the node") {
  Program rank0 = two_rank_program(0);
  const Program rank1 = two_rank_program(1);
  auto& exchange = std::get<Exchange>(rank0.segment("forward").nodes[2].op);
  exchange.sends[0].cols = exchange.sends[0].pitch = kFull / 2;  // rank 1 expects twice as much
  ThreadWorld world(2);
  std::vector<float> ignored(kShard);
  std::string errors[2];
  const auto attempt = [&](int rank, const Program& program) {
    std::vector<float> a(kShard), b(kShard);
    try {
      run_rank(rank, program, world, a, b);
    } catch (const NodeError& error) {
      errors[rank] = error.what();
    }
  };
  std::thread other([&] { attempt(1, rank1); });
  attempt(0, rank0);
  other.join();
  CHECK_THAT(errors[0] + errors[1], Catch::Contains("exchange") && Catch::Contains("pp_forward"));
  CHECK(!errors[1].empty());
}
