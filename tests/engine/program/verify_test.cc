#include "engine/program/verify.h"

#include <catch2/catch.hpp>
#include <functional>

#include "engine/program/builder.h"
#include "engine/program/edit.h"
#include "kernels/base/error.h"

using namespace titan;

namespace {

struct Fault {
  const char* name;
  const char* words;  ///< in the message
  std::function<void(ProgramBuilder&)> plant;
};

const std::vector<Fault> kFaults{
    {"read before written", "0 of 32 bytes are written",
     [](ProgramBuilder& b) {
       b.emit(Copy{.x = b.in(b.value("x", DType::f32, 1, 8)), .y = b.out(b.value("y", DType::f32, 1, 8))});
     }},
    {"read of a half-written value", "16 of 32 bytes are written",
     [](ProgramBuilder& b) {
       const ValueId x = b.value("x", DType::f32, 2, 4);
       b.emit(Fill{.y = b.out(b.view("top", x, 0, 1, 0, 4))});
       b.emit(Copy{.x = b.in(x), .y = b.out(b.value("y", DType::f32, 2, 4))});
     }},
    {"written twice", "a second time",
     [](ProgramBuilder& b) {
       const ValueId x = b.value("x", DType::f32, 2, 4);
       b.emit(Fill{.y = b.out(x)});
       b.emit(Fill{.y = b.out(b.view("part", x, 1, 1, 2, 2))});
     }},
    {"adds to a part of another sum", "adds to a part",
     [](ProgramBuilder& b) {
       const ValueId x = b.value("x", DType::f32, 1, 8);
       const ValueId in = b.value("in", DType::f32, 1, 8, {.role = Role::input});
       b.emit(ReduceScatter{.full = b.in(in), .shard = b.result(x, true)});
       b.emit(ReduceScatter{.full = b.in(in), .shard = b.result(b.slice("part", x, 4, 1, 4), true)});
     }},
    {"writes an input", "writes the input",
     [](ProgramBuilder& b) {
       b.emit(Fill{.y = b.out(b.value("in", DType::f32, 1, 8, {.role = Role::input}))});
     }},
    {"operand out of date", "differs from its value",
     [](ProgramBuilder& b) {
       const ValueId x = b.value("x", DType::f32, 1, 8);
       b.emit(Fill{.y = b.out(x)});
       b.program().value(x).dtype = DType::bf16;
     }},
    {"view outside its base", "covers bytes",
     [](ProgramBuilder& b) {
       const ValueId x = b.value("x", DType::f32, 2, 4);
       const ValueId v = b.view("v", x, 1, 1, 0, 4);
       b.program().value(v).rows = 2;
     }},
    {"view of another role", "differs from its base",
     [](ProgramBuilder& b) {
       const ValueId v = b.view("v", b.value("x", DType::f32, 2, 4), 1, 1, 0, 4);
       b.program().value(v).role = Role::output;
     }},
    {"after a later node", "does not come earlier",
     [](ProgramBuilder& b) {
       b.emit(Fill{.y = b.out(b.value("x", DType::f32, 1, 8))});
       b.program().segments[0].nodes[0].after = {77};
     }},
    {"a node id twice", "occurs twice",
     [](ProgramBuilder& b) {
       b.emit(Fill{.y = b.out(b.value("x", DType::f32, 1, 8))});
       b.emit(Fill{.y = b.out(b.value("y", DType::f32, 1, 8))});
       b.program().segments[0].nodes[1].id = b.program().segments[0].nodes[0].id;
     }},
};

}  // namespace

TEST_CASE("verify names every planted fault") {
  for (const Fault& fault : kFaults) {
    INFO(fault.name);
    ProgramBuilder b("broken");
    b.begin_segment("s");
    fault.plant(b);
    set_straight_timeline(b.program());
    CHECK_THROWS_WITH(verify(b.program()),
                      Catch::Contains("program broken is malformed") && Catch::Contains(fault.words));
  }
}

TEST_CASE("verify accepts values written by disjoint views and sums of one view") {
  ProgramBuilder b("good");
  const ValueId x = b.value("x", DType::f32, 4, 6);
  const ValueId in = b.value("in", DType::f32, 4, 6, {.role = Role::input});
  const ValueId total = b.value("total", DType::f32, 4, 6);
  b.begin_segment("s");
  b.emit(Fill{.y = b.out(b.view("left", x, 0, 4, 0, 2))});
  b.emit(Fill{.y = b.out(b.view("right", x, 0, 4, 2, 4))});
  b.emit(ReduceScatter{.full = b.in(x), .shard = b.result(total, true)});
  b.emit(ReduceScatter{.full = b.in(in), .shard = b.result(total, true)});
  b.emit(Copy{.x = b.in(total), .y = b.out(b.value("y", DType::f32, 4, 6))});
  set_straight_timeline(b.program());
  CHECK_NOTHROW(verify(b.program()));
}
