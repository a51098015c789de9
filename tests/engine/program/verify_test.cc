#include "engine/program/verify.h"

#include <catch2/catch.hpp>
#include <functional>

#include "engine/program/builder.h"
#include "engine/program/edit.h"
#include "kernels/base/error.h"
#include "kernels/op/float8_rules.h"

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

namespace {

/// A product of 8-bit floats that is right, changed by `spoil`.
std::string problem_of_float8_gemm(void (*spoil)(Gemm&)) {
  const auto operand = [](ValueId id, DType dtype, std::int64_t rows, std::int64_t cols) {
    return Operand{.value = id, .dtype = dtype, .rows = rows, .cols = cols, .pitch = cols};
  };
  Gemm op{.a = {operand(0, DType::f8e4m3, 32, 64)},
          .b = {operand(1, DType::f8e5m2, 48, 64)},
          .c = {operand(2, DType::bf16, 32, 48)},
          .workspace = {},
          .transpose_b = true,
          .scale_a = {operand(3, DType::f32, 1, 1)},
          .scale_b = {operand(4, DType::f32, 1, 1)}};
  spoil(op);
  return float8_problem(op);
}

}  // namespace

TEST_CASE("what an operation finds of its result for 8-bit products has one form") {
  const auto problem = [](void (*spoil)(SwiGlu&)) {
    SwiGlu op;
    static_cast<Operand&>(op.y) = {.value = 1, .dtype = DType::bf16, .rows = 8, .cols = 32, .pitch = 32};
    static_cast<Operand&>(op.quantized) = {
        .value = 2, .dtype = DType::f8e4m3, .rows = 8, .cols = 32, .pitch = 32};
    static_cast<Operand&>(op.scale) = {.value = 3, .dtype = DType::f32, .rows = 8, .cols = 1, .pitch = 1};
    spoil(op);
    return float8_problem(op);
  };
  CHECK(problem([](SwiGlu&) {}) == "");
  CHECK(problem([](SwiGlu& o) { o.quantized = o.scale = {}; }) == "");
  CHECK_THAT(problem([](SwiGlu& o) { o.scale = {}; }), Catch::Contains("scale"));
  CHECK_THAT(problem([](SwiGlu& o) { o.quantized = {}; }), Catch::Contains("e4m3"));
  CHECK_THAT(problem([](SwiGlu& o) { o.quantized.dtype = DType::f8e5m2; }), Catch::Contains("e4m3"));
  CHECK_THAT(problem([](SwiGlu& o) { o.quantized.cols = 16; }), Catch::Contains("shape"));
  CHECK_THAT(problem([](SwiGlu& o) { o.scale.rows = 1; }), Catch::Contains("scale a row"));
  CHECK_THAT(problem([](SwiGlu& o) { o.amax = o.scale; }), Catch::Contains("amax"));
  CHECK_THAT(problem([](SwiGlu& o) {
               o.amax = o.scale;
               o.amax.rows = 1;
             }),
             Catch::Contains("not both"));
}

TEST_CASE("8-bit products that Hopper lacks are refused everywhere") {
  CHECK(problem_of_float8_gemm([](Gemm&) {}) == "");
  CHECK(problem_of_float8_gemm([](Gemm& g) { g.a.dtype = DType::f8e5m2; }) == "both factors are e5m2");
  CHECK_THAT(problem_of_float8_gemm([](Gemm& g) { g.a.dtype = DType::bf16; }), Catch::Contains("only one"));
  CHECK_THAT(problem_of_float8_gemm([](Gemm& g) { g.transpose_b = false; }), Catch::Contains("transpose_b"));
  CHECK_THAT(problem_of_float8_gemm([](Gemm& g) { g.transpose_a = true; }), Catch::Contains("transpose_b"));
  CHECK_THAT(problem_of_float8_gemm([](Gemm& g) { g.scale_b.rows = 48; }), Catch::Contains("scales"));
  CHECK_THAT(problem_of_float8_gemm([](Gemm& g) { g.scale_a = {}; }), Catch::Contains("scales"));
  CHECK_THAT(problem_of_float8_gemm([](Gemm& g) { g.a.cols = g.a.pitch = 40; }),
             Catch::Contains("is 40, not"));
  CHECK_THAT(problem_of_float8_gemm([](Gemm& g) { g.c.rows = 33; }), Catch::Contains("is 33, not"));
  CHECK_THAT(problem_of_float8_gemm([](Gemm& g) { g.c.dtype = DType::f8e4m3; }),
             Catch::Contains("the product is f8e4m3"));
}
