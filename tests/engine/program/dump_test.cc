#include "engine/program/dump.h"

#include <catch2/catch.hpp>

#include "engine/program/builder.h"

using namespace titan;

TEST_CASE("a dump is one aligned line a node, and stable") {
  ProgramBuilder b("demo");
  const ValueId x = b.value("x", DType::bf16, 4, 8, {.role = Role::input, .lifetime = Lifetime::micro_batch});
  const ValueId w =
      b.value("layers.0.w", DType::bf16, 6, 8, {.role = Role::weight, .lifetime = Lifetime::persistent});
  const ValueId y = b.value("layers.0.y", DType::bf16, 4, 6);
  const ValueId dw =
      b.value("d.layers.0.w", DType::f32, 6, 8, {.role = Role::gradient, .lifetime = Lifetime::step});
  b.begin_segment("forward");
  b.set_tag({.layer = 0, .phase = Phase::forward});
  b.emit(Gemm{.a = b.in(x), .b = b.in(w), .c = b.result(y), .workspace = {}, .transpose_b = true});
  b.begin_segment("backward");
  b.emit(Gemm{.a = b.in(y), .b = b.in(x), .c = b.result(dw, true), .workspace = {}, .transpose_a = true},
         Phase::weight_grad);
  b.emit(AllReduce{.x = b.in(dw), .y = b.out(b.value("sum", DType::f32, 6, 8)), .axis = Axis::dp},
         Phase::reduce, Lane::fsdp);
  set_accumulation_timeline(b.program(), 2);
  const Program p = b.take();
  CHECK(dump(p) ==
        "program demo: 5 values, 3 nodes, 2 micro-batches, 1 slots\n"
        "timeline forward(0) backward(0) forward(1) backward(1)\n"
        "segment forward: 1 nodes\n"
        "     0 compute     L0  forward     gemm               c=layers.0.y[4,6]bf16 <- a=x[4,8]bf16 "
        "b=layers.0.w[6,8]bf16 | "
        "transpose_b=1\n"
        "segment backward: 2 nodes\n"
        "     1 compute     L0  weight_grad gemm               c+=d.layers.0.w[6,8]f32 <- "
        "a=layers.0.y[4,6]bf16 b=x[4,8]bf16 | "
        "transpose_a=1\n"
        "     2 fsdp        L0  reduce      all_reduce         y=sum[6,8]f32 <- x=d.layers.0.w[6,8]f32 | "
        "axis=dp reduction=sum\n");
  const std::string unrolled = dump(p, {.unroll = true});
  CHECK_THAT(unrolled, Catch::Contains("   0.2 m0 s0 compute") && Catch::Contains("first=100"));
  CHECK_THAT(unrolled, Catch::Contains("   1.1 m0 s0 fsdp") && Catch::Contains("wait(0.2)"));
  const std::string values = dump(p, {.values = true});
  CHECK_THAT(values, Catch::Contains("  gradient        step" + std::string(19, ' ') +
                                     "192 B  d.layers.0.w[6,8]f32\n"));
}
