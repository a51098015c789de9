#include "app/bench/ops.h"

#include <catch2/catch.hpp>

#include "app/bench/peak.h"
#include "kernels/cost/cost.h"

using namespace titan;

TEST_CASE("measured speeds are those of a processor", "[slow]") {
  const DeviceRequest one_thread{.device = "cpu", .threads = 1};
  // A wrong count of bytes or operations is off by the size of a matrix, not by a processor's generation.
  CHECK(measure_gemm_peak(DType::f32, one_thread) > 1e8);
  CHECK(measure_gemm_peak(DType::f32, one_thread) < 1e13);
  CHECK(measure_bandwidth(one_thread) > 1e8);
  CHECK(measure_bandwidth(one_thread) < 1e12);
}

TEST_CASE("equal work is added up, and the median of steps is shown") {
  const auto operand = [](ValueId value, std::int64_t cols) {
    return Operand{.value = value, .dtype = DType::f32, .rows = 1, .cols = cols, .pitch = cols};
  };
  Program program;
  for (const std::int64_t cols : {8, 8, 8, 8, 16, 16})
    program.values.push_back({.name = "v", .rows = 1, .cols = cols, .pitch = cols});
  Segment segment{.name = "s", .nodes = {}};
  const auto add_copy = [&](ValueId from, ValueId to, std::int64_t cols) {
    Copy copy;
    static_cast<Operand&>(copy.x) = operand(from, cols);
    static_cast<Operand&>(copy.y) = operand(to, cols);
    Node& node = segment.nodes.emplace_back();
    node.op = copy;
    node.id = program.next_node++;
  };
  add_copy(0, 1, 8);
  add_copy(4, 5, 16);
  add_copy(2, 3, 8);
  program.segments.push_back(segment);
  program.timeline.push_back({});
  const std::vector<std::vector<CommandTime>> steps{{{0, 1}, {1, 2}, {2, 4}},     // 3 and 1
                                                    {{0, 2}, {2, 12}, {12, 14}},  // 4 and 10
                                                    {{0, 4}, {4, 6}, {6, 10}}};   // 8 and 2
  const Machine machine = cpu_machine("avx2", 1, 1e9, 1e9, 1e9, 0);
  const std::vector<OpTime> times = times_by_shape(program, steps, machine);
  REQUIRE(times.size() == 2);
  CHECK(times[0].op == "copy");
  CHECK(times[0].shape == "x [1 x 8] f32");
  CHECK(times[0].count == 2);
  CHECK(times[0].seconds == 4);
  CHECK(times[0].fastest == 3);
  CHECK(times[0].bytes == 2 * 2 * 8 * 4);
  CHECK(times[0].floor_seconds == Approx(2 * cost(segment.nodes[0].op, machine).seconds));
  CHECK(times[1].shape == "x [1 x 16] f32");
  CHECK(times[1].count == 1);
  CHECK(times[1].seconds == 2);
}
