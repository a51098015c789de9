#include "engine/program/place.h"

#include <catch2/catch.hpp>
#include <random>

#include "engine/program/builder.h"
#include "engine/program/lifetime.h"
#include "engine/program/verify.h"
#include "kernels/base/error.h"

using namespace titan;

namespace {

Placement place_one(const Program& p) {
  const Program* list[] = {&p};
  Placement placement = place(list);
  verify_placement(list, placement);
  return placement;
}

/// A chain: each node reads the last value and writes the next; sizes vary.
Program chain(int length, std::uint32_t seed, bool lanes) {
  std::mt19937 random(seed);
  ProgramBuilder b("chain");
  b.begin_segment("s");
  std::vector<ValueId> values;
  for (int i = 0; i < length; ++i) {
    values.push_back(b.value(fmt::format("v{}", i), DType::f32, 1, 64 * (1 + random() % 9)));
    const Lane lane = lanes ? static_cast<Lane>(random() % 3) : Lane::compute;
    if (i == 0) {
      b.emit(Fill{.y = b.out(values[0])}, lane);
      continue;
    }
    const ValueId near = values[static_cast<std::size_t>(i) - 1],
                  far = values[random() % static_cast<std::size_t>(i)];
    b.emit(MergeLse{.out_a = b.in(near),
                    .lse_a = b.in(far),
                    .out_b = {},
                    .lse_b = {},
                    .out = b.out(values.back()),
                    .lse = {}},
           lane);
  }
  set_straight_timeline(b.program());
  return b.take();
}

}  // namespace

TEST_CASE("memory is reused after the last use, and not before") {
  ProgramBuilder b("p");
  const ValueId x = b.value("x", DType::f32, 1, 256), y = b.value("y", DType::f32, 1, 256),
                z = b.value("z", DType::f32, 1, 256);
  b.begin_segment("s");
  b.emit(Fill{.y = b.out(x)});
  b.emit(Cast{.x = b.in(x), .y = b.out(y)});
  b.emit(Cast{.x = b.in(y), .y = b.out(z)});
  set_straight_timeline(b.program());
  const Program p = b.take();
  const Placement placement = place_one(p);
  CHECK(placement.offset(0, x, 0) == placement.offset(0, z, 0));
  CHECK(placement.offset(0, x, 0) != placement.offset(0, y, 0));
  CHECK(placement.space(Space::device).arena_bytes == 2048);
  CHECK(placement.space(Space::device).programs[0].lower_bound == 2048);
}

TEST_CASE("memory is not reused across lanes without proof of order") {
  const bool ordered = GENERATE(false, true);
  ProgramBuilder b("p");
  const ValueId x = b.value("x", DType::f32, 1, 256), y = b.value("y", DType::f32, 1, 256),
                z = b.value("z", DType::f32, 1, 256);
  b.begin_segment("s");
  b.emit(Fill{.y = b.out(x)});
  const NodeId reader = b.emit(Cast{.x = b.in(x), .y = b.out(y)});
  b.emit(Fill{.y = b.out(z)}, Lane::fsdp);
  if (ordered) b.program().segments[0].nodes.back().after = {reader};
  set_straight_timeline(b.program());
  const Program p = b.take();
  const Placement placement = place_one(p);
  CHECK((placement.offset(0, x, 0) == placement.offset(0, z, 0)) == ordered);
}

TEST_CASE("an output takes over the memory of an input that dies, chains included") {
  ProgramBuilder b("p");
  const ValueId gate_up = b.value("gate_up", DType::f32, 4, 128), dy = b.value("dy", DType::f32, 4, 64);
  const ValueId dgate_up = b.value("dgate_up", DType::f32, 4, 128), sum = b.value("sum", DType::f32, 4, 128);
  b.begin_segment("s");
  b.emit(Fill{.y = b.out(gate_up)});
  b.emit(Fill{.y = b.out(dy)});
  b.emit(SwiGluGrad{.dy = b.in(dy), .gate_up = b.in(gate_up), .dgate_up = b.out(dgate_up)});
  b.emit(Add{.a = b.in(dgate_up), .b = b.in(dgate_up), .y = b.out(sum)});
  SECTION("it dies here") {
    set_straight_timeline(b.program());
    const Program p = b.take();
    const Placement placement = place_one(p);
    CHECK(placement.offset(0, gate_up, 0) == placement.offset(0, dgate_up, 0));
    CHECK(placement.offset(0, sum, 0) == placement.offset(0, dgate_up, 0));
  }
  SECTION("it is read again later") {
    b.emit(Cast{.x = b.in(gate_up), .y = b.out(b.value("again", DType::f32, 4, 128))});
    set_straight_timeline(b.program());
    const Program p = b.take();
    const Placement placement = place_one(p);
    CHECK(placement.offset(0, gate_up, 0) != placement.offset(0, dgate_up, 0));
  }
}

TEST_CASE("inputs are there from the start and outputs stay to the end") {
  ProgramBuilder b("p");
  const ValueId in = b.value("in", DType::f32, 1, 64, {.role = Role::input, .lifetime = Lifetime::step});
  const ValueId early = b.value("early", DType::f32, 1, 64), late = b.value("late", DType::f32, 1, 64);
  const ValueId out = b.value("out", DType::f32, 1, 64, {.role = Role::output, .lifetime = Lifetime::step});
  b.begin_segment("s");
  b.emit(Fill{.y = b.out(early)});
  b.emit(Copy{.x = b.in(early), .y = b.out(out)});
  b.emit(Copy{.x = b.in(in), .y = b.out(late)});
  set_straight_timeline(b.program());
  const Program p = b.take();
  const Placement placement = place_one(p);
  CHECK(placement.offset(0, in, 0) != placement.offset(0, early, 0));
  CHECK(placement.offset(0, out, 0) != placement.offset(0, late, 0));
}

TEST_CASE("programs of a job share persistent values by name and overlay their transients") {
  const auto build = [](const char* name, std::int64_t size) {
    ProgramBuilder b(name);
    const ValueId w =
        b.value("w", DType::f32, 1, 64, {.role = Role::parameter, .lifetime = Lifetime::persistent});
    const ValueId x = b.value("x", DType::f32, 1, size);
    b.begin_segment("s");
    b.emit(Copy{.x = b.in(w), .y = b.out(b.value("y", DType::f32, 1, 64))});
    b.emit(Fill{.y = b.out(x)});
    set_straight_timeline(b.program());
    return b.take();
  };
  const Program small = build("small", 64), large = build("large", 1024);
  const Program* list[] = {&small, &large};
  const Placement placement = place(list);
  CHECK(placement.offset(0, small.at("w"), 0) == placement.offset(1, large.at("w"), 0));
  CHECK(placement.space(Space::device).persistent_bytes == 256);
  CHECK(placement.space(Space::device).arena_bytes == 256 + 4096);
  Program other = build("other", 64);
  other.value(other.at("w")).cols = other.value(other.at("w")).pitch = 65;
  const Program* clash[] = {&small, &other};
  CHECK_THROWS_AS(place(clash), InternalError);
}

TEST_CASE("random programs are placed safely and near the lower bound") {
  for (std::uint32_t seed = 1; seed <= 40; ++seed) {
    const bool lanes = seed % 2 == 0;
    INFO("seed " << seed);
    const Program p = chain(120, seed, lanes);
    REQUIRE_NOTHROW(verify(p));
    const Placement placement = place_one(p);
    if (!lanes) CHECK(placement.space(Space::device).programs[0].waste() < 0.25);
  }
}

TEST_CASE("verify_placement finds a pair that shares memory too early") {
  // The same nodes on one lane and on two: a placement of the first is not safe for the second.
  const auto build = [](Lane lane) {
    ProgramBuilder b("p");
    const ValueId x = b.value("x", DType::f32, 1, 256), y = b.value("y", DType::f32, 1, 256),
                  z = b.value("z", DType::f32, 1, 256);
    b.begin_segment("s");
    b.emit(Fill{.y = b.out(x)});
    b.emit(Cast{.x = b.in(x), .y = b.out(y)});
    b.emit(Fill{.y = b.out(z)}, lane);
    set_straight_timeline(b.program());
    return b.take();
  };
  const Program one = build(Lane::compute), two = build(Lane::fsdp);
  const Program* placed[] = {&one};
  const Program* checked[] = {&two};
  const Placement placement = place(placed);
  CHECK_THROWS_WITH(verify_placement(checked, placement), Catch::Contains("share memory"));
}
