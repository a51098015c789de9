#include <catch2/catch.hpp>
#include <functional>

#include "engine/program/builder.h"
#include "parallelism/compile.h"

using namespace titan;

namespace {

using Emit = std::function<void(ProgramBuilder&)>;

Program program_of(const Emit& emit) {
  ProgramBuilder b("rank");
  b.begin_segment("s");
  emit(b);
  set_straight_timeline(b.program());
  return b.take();
}

ValueId input(ProgramBuilder& b, const char* name, std::int64_t n) {
  return b.value(name, DType::f32, 1, n, {.role = Role::input, .lifetime = Lifetime::step});
}

Emit all_reduce(std::int64_t n, Axis axis, Lane lane = Lane::tp) {
  return [=](ProgramBuilder& b) {
    b.emit(AllReduce{.x = b.in(input(b, "x", n)), .y = b.out(b.value("y", DType::f32, 1, n)), .axis = axis},
           lane);
  };
}

Emit gather(std::int64_t n, Axis axis) {
  return [=](ProgramBuilder& b) {
    b.emit(
        AllGather{
            .shard = b.in(input(b, "x", n)), .full = b.out(b.value("y", DType::f32, 1, 2 * n)), .axis = axis},
        Lane::tp);
  };
}

Emit send_then_receive(std::int64_t sent, std::int64_t received) {
  return [=](ProgramBuilder& b) {
    b.emit(Exchange{.sends = {b.in(input(b, "x", sent))},
                    .recvs = {b.out(b.value("y", DType::f32, 1, received))},
                    .send_peers = {1},
                    .recv_peers = {1}},
           Lane::pp_forward);
  };
}

Emit receive_from_0(std::int64_t n) {
  return [=](ProgramBuilder& b) {
    b.emit(Exchange{.sends = {b.in(input(b, "x", n))},
                    .recvs = {b.out(b.value("y", DType::f32, 1, n))},
                    .send_peers = {0},
                    .recv_peers = {0}},
           Lane::pp_forward);
  };
}

Emit in_turn(Emit first, Emit second) {
  return [=](ProgramBuilder& b) {
    first(b);
    second(b);
  };
}

const auto both = [](int, Axis) { return std::vector<int>{0, 1}; };

void check(const Emit& rank0, const Emit& rank1) {
  const Program a = program_of(rank0), b = program_of(rank1);
  const Program* all[] = {&a, &b};
  verify_all(all, both);
}

}  // namespace

TEST_CASE("ranks that agree pass") {
  CHECK_NOTHROW(check(in_turn(all_reduce(8, Axis::tp), gather(4, Axis::dp)),
                      in_turn(all_reduce(8, Axis::tp), gather(4, Axis::dp))));
  CHECK_NOTHROW(check(send_then_receive(8, 8), receive_from_0(8)));
}

TEST_CASE("ranks that disagree are told apart") {
  CHECK_THROWS_WITH(check(all_reduce(8, Axis::tp), all_reduce(16, Axis::tp)),
                    Catch::Contains("disagree") && Catch::Contains("8 f32") && Catch::Contains("16 f32"));
  CHECK_THROWS_WITH(check(all_reduce(8, Axis::tp), gather(8, Axis::tp)),
                    Catch::Contains("all_reduce") && Catch::Contains("all_gather"));
  CHECK_THROWS_WITH(check(all_reduce(8, Axis::tp), [](ProgramBuilder&) {}),
                    Catch::Contains("no collective left"));
  CHECK_THROWS_WITH(check(send_then_receive(8, 8), receive_from_0(4)), Catch::Contains("do not match"));
}

TEST_CASE("waiting for each other is found, with the nodes that wait") {
  SECTION("two axes in opposite order on one lane") {
    CHECK_THROWS_WITH(check(in_turn(all_reduce(8, Axis::tp), all_reduce(8, Axis::dp)),
                            in_turn(all_reduce(8, Axis::dp), all_reduce(8, Axis::tp))),
                      Catch::Contains("for ever") && Catch::Contains("rank 0") && Catch::Contains("rank 1"));
  }
  SECTION("two lanes that wait for each other through the data") {
    const auto crossed = [](bool first_on_tp) {
      return [=](ProgramBuilder& b) {
        const ValueId x = input(b, "x", 8), y = b.value("y", DType::f32, 1, 8),
                      z = b.value("z", DType::f32, 1, 8);
        b.emit(AllReduce{.x = b.in(x), .y = b.out(y), .axis = Axis::tp}, first_on_tp ? Lane::tp : Lane::fsdp);
        b.emit(AllReduce{.x = b.in(y), .y = b.out(z), .axis = Axis::tp}, first_on_tp ? Lane::fsdp : Lane::tp);
      };
    };
    CHECK_NOTHROW(check(crossed(true), crossed(true)));
    CHECK_THROWS_WITH(check(crossed(true), crossed(false)), Catch::Contains("for ever"));
  }
}
