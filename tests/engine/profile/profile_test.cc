#include "engine/profile/profile.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "engine/profile/trace.h"
#include "engine/program/builder.h"
#include "engine/program/edit.h"
#include "engine/program/order.h"
#include "kernels/cost/cost.h"
#include "kernels/cost/machine.h"
#include "kernels/cost/workspace.h"

namespace titan {
namespace {

Machine machine() { return cpu_machine("avx2", 1, 1e9, 1e9, 1e9, 1 << 30); }

/// A micro-batch: x → y on the compute lane, y → z on the offload lane; at the end, the sum of the last z.
Program small_program(int micro_batches) {
  ProgramBuilder b("small \"quoted\"");
  const ValueId x =
      b.value("x", DType::f32, 1, 1 << 20, {.role = Role::input, .lifetime = Lifetime::micro_batch});
  const ValueId y = b.value("y", DType::f32, 1, 1 << 20);
  const ValueId z =
      b.value("z", DType::f32, 1, 1 << 20, {.role = Role::gradient, .lifetime = Lifetime::step});
  const ValueId norm = b.value("norm", DType::f32, 1, 1, {.role = Role::output, .lifetime = Lifetime::step});
  const ValueId partial = b.value("partial", DType::i64, 1, square_sum_blocks(1 << 20),
                                  {.role = Role::scratch, .lifetime = Lifetime::step});
  b.begin_segment("forward");
  b.emit(Copy{.x = b.in(x), .y = b.out(y)});
  b.emit(ReduceScatter{.full = b.in(y), .shard = b.result(z, true)}, Phase::reduce, Lane::offload);
  b.begin_segment("optimizer");
  b.emit(SquareSum{.x = b.in(z), .sum = b.out(norm), .partial = b.scratch(partial)});
  set_accumulation_timeline(b.program(), micro_batches);
  return b.take();
}

TEST_CASE("a prediction runs lanes in order and waits where the program does") {
  const Program p = small_program(2);
  const auto times = predict(p, machine());
  const auto occurrences = unroll(p);
  REQUIRE(times.size() == 5);
  const double copy = cost(occurrences[0].node->op, machine()).seconds;
  CHECK(times[0].begin == 0);
  CHECK(times[0].end == Approx(copy));
  CHECK(times[1].begin == Approx(copy));          // the scatter waits for y
  CHECK(times[2].begin == Approx(times[1].end));  // y's second life waits for the scatter that reads it
  CHECK(times[4].begin == Approx(times[3].end));  // the norm waits for the last scatter
}

TEST_CASE("training is held by a phase where it waits for its nodes") {
  const Program p = small_program(2);
  // Copies at 0 and 4 (which waits for the scatter that reads its target), the norm at 7.
  const std::vector<CommandTime> times{{0, 1}, {1, 3.5}, {4, 6}, {6, 6.75}, {7, 7.5}};
  CHECK(held_by(p, times, Phase::reduce) == Approx((3.5 - 1) + (6.75 - 6)));
  CHECK(held_by(p, times, Phase::gather) == 0);
}

TEST_CASE("shares add up by operation") {
  const Program p = small_program(2);
  const std::vector<CommandTime> times{{0, 1}, {1, 4}, {4, 6}, {6, 7}, {7, 7.5}};
  const auto shares = share_by_op(p, times, machine());
  REQUIRE(shares.size() == 3);
  CHECK(shares[0].op == "reduce_scatter");
  CHECK(shares[0].seconds == Approx(4));
  CHECK(shares[0].count == 2);
  CHECK(shares[1].op == "copy");
  CHECK(shares[1].seconds == Approx(3));
  CHECK(shares[1].bytes == Approx(2 * 2 * 4 * (1 << 20)));
  CHECK(shares[2].seconds == Approx(0.5));
  const std::string table = share_table(shares, 7.5);
  CHECK_THAT(table, Catch::Contains("53.3%") && Catch::Contains("40.0%"));
}

TEST_CASE("totals count every micro-batch, and matrix products by their type") {
  Program p = small_program(3);
  const ProgramTotals without = totals(p, machine());
  CHECK(without.nodes == static_cast<std::int64_t>(unroll(p).size()));
  CHECK(without.gemm_flops_bf16 + without.gemm_flops_f32 == 0);
  const auto runs = std::count_if(p.timeline.begin(), p.timeline.end(),
                                  [](const TimelineStep& step) { return step.segment == 0; });
  for (const DType dtype : {DType::bf16, DType::f32}) {
    Node& node = p.segments[0].nodes.emplace_back();
    Gemm gemm;
    static_cast<Operand&>(gemm.a) = {.value = 0, .dtype = dtype, .rows = 3, .cols = 5, .pitch = 5};
    static_cast<Operand&>(gemm.b) = {.value = 1, .dtype = dtype, .rows = 5, .cols = 7, .pitch = 7};
    static_cast<Operand&>(gemm.c) = {.value = 2, .dtype = DType::f32, .rows = 3, .cols = 7, .pitch = 7};
    node.op = gemm;
  }
  const ProgramTotals with = totals(p, machine());
  CHECK(with.gemm_flops_bf16 == runs * 2 * 3 * 5 * 7);
  CHECK(with.gemm_flops_f32 == runs * 2 * 3 * 5 * 7);
  CHECK(with.flops == without.flops + runs * 4 * 3 * 5 * 7);
  CHECK(with.nodes == without.nodes + 2 * runs);
  for (Segment& segment : p.segments)
    for (Node& node : segment.nodes) node.lane = Lane::compute;
  CHECK(totals(p, machine()).seconds > with.seconds);  // of the busiest lane: now there is one
  CHECK(with.seconds >= without.seconds);
}

TEST_CASE("a trace is JSON with a slice a node, a track a lane and the memory alive") {
  for (const int micro_batches : {1, 2, 3, 5}) {
    const Program p = small_program(micro_batches);
    const auto times = predict(p, machine());
    const auto trace =
        nlohmann::json::parse(trace_json(p, times, {.title = "a \"run\"", .rank = 3, .persistent_bytes = 7}));
    int slices = 0, lanes = 0, counters = 0;
    std::int64_t most = 0;
    for (const auto& event : trace["traceEvents"]) {
      CHECK(event["pid"] == 3);
      if (event["name"] == "thread_name") ++lanes;
      if (event["name"] == "process_name") CHECK(event["args"]["name"] == "a \"run\"");
      if (event["ph"] == "C") {
        ++counters;
        CHECK(event["args"]["persistent"] == 7);
        most = std::max(most, event["args"]["transient"].get<std::int64_t>());
      }
      if (event["ph"] != "X") continue;
      const auto i = static_cast<std::size_t>(slices++);
      CHECK(event["ts"].get<double>() == Approx(times[i].begin * 1e6).margin(1e-3));
      CHECK(event["dur"].get<double>() == Approx((times[i].end - times[i].begin) * 1e6).margin(1e-3));
      CHECK(event["args"]["segment"] == (slices > 2 * micro_batches ? "optimizer" : "forward"));
      if (slices <= 2 * micro_batches) CHECK(event["args"]["micro_batch"] == static_cast<int>(i) / 2);
    }
    CHECK(slices == 2 * micro_batches + 1);
    CHECK(counters == slices);
    CHECK(lanes == 2);
    CHECK(most == (micro_batches + 2) * (std::int64_t{4} << 20));  // all x, y and z
  }
}

}  // namespace
}  // namespace titan
