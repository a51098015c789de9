#include "engine/program/order.h"

#include <catch2/catch.hpp>

#include "engine/program/builder.h"
#include "kernels/base/error.h"

using namespace titan;

namespace {

using Waits = std::vector<std::pair<int, std::int64_t>>;

Waits waits_of(const Occurrence& o) {
  Waits waits;
  for (const Wait& w : o.waits) waits.emplace_back(w.lane, w.ticket);
  return waits;
}

constexpr int kFsdp = static_cast<int>(Lane::fsdp), kTp = static_cast<int>(Lane::tp), kCompute = 0;

}  // namespace

TEST_CASE("read after write, write after read and write after write wait across lanes, and only once") {
  ProgramBuilder b("p");
  const ValueId x = b.value("x", DType::f32, 1, 64), y = b.value("y", DType::f32, 1, 64),
                z = b.value("z", DType::f32, 1, 64);
  const ValueId state = b.value("state", DType::f32, 1, 64, {.lifetime = Lifetime::persistent});
  b.begin_segment("s");
  b.emit(Fill{.y = b.out(x)});                            // compute 1
  b.emit(Copy{.x = b.in(x), .y = b.out(y)}, Lane::fsdp);  // fsdp 1: RAW on compute 1
  b.emit(Copy{.x = b.in(x), .y = b.out(z)}, Lane::fsdp);  // fsdp 2: its lane has waited already
  b.emit(Cast{.x = b.in(y), .y = b.out(b.value("w", DType::f32, 1, 64))});     // compute 2: RAW on fsdp 1
  b.emit(Copy{.x = b.in(z), .y = b.out(state)}, Lane::tp);                     // tp 1: RAW on fsdp 2
  b.emit(CacheWrite{.x = b.in(x), .positions = {}, .cache = b.state(state)});  // compute 3: WAW on tp 1
  set_straight_timeline(b.program());
  const Program p = b.take();
  const std::vector<Occurrence> list = unroll(p);
  CHECK(waits_of(list[0]).empty());
  CHECK(waits_of(list[1]) == Waits{{kCompute, 1}});
  CHECK(waits_of(list[2]).empty());
  CHECK(waits_of(list[3]) == Waits{{kFsdp, 1}});
  CHECK(waits_of(list[4]) == Waits{{kFsdp, 2}});
  CHECK(waits_of(list[5]) == Waits{{kTp, 1}});
  CHECK(list[5].before.finished[kFsdp] == 2);  // through tp 1
}

TEST_CASE("disjoint views of one value do not wait for each other") {
  ProgramBuilder b("p");
  const ValueId x = b.value("x", DType::f32, 4, 8);
  const ValueId left = b.view("left", x, 0, 4, 0, 3), right = b.view("right", x, 0, 4, 3, 5),
                top = b.view("top", x, 0, 1, 0, 8);
  b.begin_segment("s");
  b.emit(Fill{.y = b.out(left)});
  b.emit(Fill{.y = b.out(right)}, Lane::fsdp);
  b.emit(Copy{.x = b.in(top), .y = b.out(b.value("t", DType::f32, 1, 8))}, Lane::tp);
  set_straight_timeline(b.program());
  const Program p = b.take();
  const auto list = unroll(p);
  CHECK(waits_of(list[1]).empty());
  CHECK(waits_of(list[2]) == Waits{{kCompute, 1}, {kFsdp, 1}});
}

TEST_CASE("after edges add order, and must point back") {
  ProgramBuilder b("p");
  b.begin_segment("s");
  const NodeId first = b.emit(Fill{.y = b.out(b.value("x", DType::f32, 1, 8))});
  b.emit(Fill{.y = b.out(b.value("y", DType::f32, 1, 8))}, Lane::fsdp);
  b.program().segments[0].nodes[1].after = {first};
  set_straight_timeline(b.program());
  CHECK(waits_of(unroll(b.program())[1]) == Waits{{kCompute, 1}});
  b.program().segments[0].nodes[0].after = {b.program().segments[0].nodes[1].id};
  CHECK_THROWS_AS(unroll(b.program()), InternalError);
}

TEST_CASE("a slot's next micro-batch waits for the readers of the last one") {
  ProgramBuilder b("p");
  const ValueId x = b.value("x", DType::f32, 1, 8);
  const ValueId total =
      b.value("total", DType::f32, 1, 8, {.role = Role::output, .lifetime = Lifetime::step});
  b.begin_segment("forward");
  b.emit(Fill{.y = b.out(x)});
  b.begin_segment("backward");
  b.emit(ReduceScatter{.full = b.in(x), .shard = b.result(total, true)}, Lane::fsdp);
  set_accumulation_timeline(b.program(), 3);
  const Program p = b.take();
  const auto list = unroll(p);
  REQUIRE(list.size() == 6);
  CHECK(waits_of(list[2]) == Waits{{kFsdp, 1}});
  CHECK(waits_of(list[3]) == Waits{{kCompute, 2}});
  CHECK(list[1].overwrite == 0b10);  // the step's first writer overwrites
  CHECK(list[3].overwrite == 0);
  CHECK(list[5].overwrite == 0);
}

TEST_CASE("values of a slot accumulate afresh in every micro-batch") {
  ProgramBuilder b("p");
  const ValueId x = b.value("x", DType::f32, 2, 2, {.role = Role::input, .lifetime = Lifetime::step});
  const ValueId sum = b.value("sum", DType::f32, 2, 2);
  b.begin_segment("forward");
  b.emit(Gemm{.a = b.in(x), .b = b.in(x), .c = b.result(sum, true), .workspace = {}});
  b.emit(Gemm{.a = b.in(x), .b = b.in(x), .c = b.result(sum, true), .workspace = {}});
  set_accumulation_timeline(b.program(), 2);
  const Program p = b.take();
  std::vector<std::uint32_t> overwrites;
  for (const Occurrence& o : unroll(p)) overwrites.push_back(o.overwrite);
  CHECK(overwrites == std::vector<std::uint32_t>{0b100, 0, 0b100, 0});
}
