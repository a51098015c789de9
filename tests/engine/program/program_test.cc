#include "engine/program/program.h"

#include <catch2/catch.hpp>

#include "engine/program/builder.h"
#include "engine/program/edit.h"
#include "kernels/base/error.h"

using namespace titan;

namespace {

/// Bytes that two values cover together, counted one by one.
std::int64_t count_overlap(const Value& a, const Value& b, std::int64_t base_bytes) {
  std::vector<char> covered(static_cast<std::size_t>(base_bytes), 0);
  const auto mark = [&](const Value& v, char bit) {
    const std::int64_t size = size_of(v.dtype);
    for (std::int64_t r = 0; r < v.rows; ++r)
      for (std::int64_t i = 0; i < v.cols * size; ++i)
        covered[static_cast<std::size_t>(v.offset + r * v.pitch * size + i)] |= bit;
  };
  mark(a, 1);
  mark(b, 2);
  return std::count(covered.begin(), covered.end(), 3);
}

}  // namespace

TEST_CASE("overlap of rectangles is counted to the byte for row and column blocks") {
  ProgramBuilder b("p");
  const ValueId base = b.value("base", DType::bf16, 6, 10);
  std::vector<ValueId> views{base};
  for (int r0 = 0; r0 < 6; r0 += 2)
    for (int r1 = r0 + 1; r1 <= 6; r1 += 2)
      for (int c0 = 0; c0 < 10; c0 += 3)
        for (int c1 = c0 + 2; c1 <= 10; c1 += 4) views.push_back(b.view("v", base, r0, r1 - r0, c0, c1 - c0));
  for (const ValueId x : views)
    for (const ValueId y : views)
      CHECK(overlap_bytes(rect_of(b[x]), rect_of(b[y])) == count_overlap(b[x], b[y], b[base].bytes()));
}

TEST_CASE("views of views name the base") {
  ProgramBuilder b("p");
  const ValueId base = b.value("base", DType::f32, 8, 12);
  const ValueId middle = b.view("middle", base, 2, 4, 3, 6);
  const ValueId inner = b.view("inner", middle, 1, 2, 2, 3);
  CHECK(b.program().base_of(inner) == base);
  CHECK(b[inner].offset == ((2 + 1) * 12 + 3 + 2) * 4);
  CHECK(b[inner].pitch == 12);
  CHECK_THROWS_AS(b.view("out", middle, 0, 5, 0, 1), InternalError);
  CHECK_THROWS_AS(b.reshape("r", middle, 2, 12), InternalError);
}

TEST_CASE("rebase moves a value and its views into other storage") {
  ProgramBuilder b("p");
  const ValueId unit = b.value("unit", DType::f32, 4, 8);
  const ValueId part = b.view("part", unit, 1, 2, 0, 8);
  Program p = b.take();
  const ValueId bucket = add_value(p, "bucket", DType::f32, 1, 100, Role::parameter, Lifetime::persistent);
  rebase(p, unit, bucket, 64);
  CHECK(p.value(unit).base == bucket);
  CHECK(p.value(part).base == bucket);
  CHECK(p.value(part).offset == 64 + 8 * 4);
  CHECK(p.value(part).role == Role::parameter);
  CHECK_THROWS_AS(
      rebase(p, add_value(p, "big", DType::f32, 1, 99, Role::parameter, Lifetime::persistent), bucket, 8),
      InternalError);
}

TEST_CASE("the accumulation timeline runs forward and backward of each micro-batch in turn") {
  ProgramBuilder b("p");
  for (const char* name : {"forward", "backward", "optimizer"}) b.begin_segment(name);
  set_accumulation_timeline(b.program(), 3);
  std::string order;
  for (const TimelineStep& s : b.program().timeline)
    order += b.program().segments[static_cast<std::size_t>(s.segment)].name.substr(0, 1) +
             std::to_string(s.micro_batch) + " ";
  CHECK(order == "f0 b0 f1 b1 f2 b2 o2 ");
  CHECK(b.program().timeline[0].variant == Variant{true, false});
  CHECK(b.program().timeline[3].variant == Variant{false, false});
  CHECK(b.program().timeline[5].variant == Variant{false, true});
}
