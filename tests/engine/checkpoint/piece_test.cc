#include "engine/checkpoint/piece.h"

#include "kernels/base/error.h"
#include "tests/engine/checkpoint/fixture.h"

#include <catch2/catch.hpp>

#include <map>
#include <random>
#include <set>

using namespace titan;
using namespace titan::test;
using Catch::Contains;

namespace {

int64_t pick(int64_t low, int64_t high, std::mt19937& random) {
  return std::uniform_int_distribution(low, high)(random);
}

Piece random_piece(const std::vector<int64_t>& shape, std::mt19937& random) {
  Box box{shape, shape};
  for (size_t d = 0; d < shape.size(); ++d) {
    box.offset[d] = pick(0, 2, random) == 0 ? 0 : pick(0, shape[d], random);
    box.size[d] =
        pick(0, 2, random) == 0 ? shape[d] - box.offset[d] : pick(0, shape[d] - box.offset[d], random);
  }
  Piece piece = box_piece("w", shape, box);
  if (pick(0, 1, random) == 1) {
    piece.flat_begin = pick(0, piece.flat_end, random);
    piece.flat_end = pick(piece.flat_begin, piece.flat_end, random);
  }
  return piece;
}

bool is_covered(const std::vector<Piece>& have, const Piece& want) {
  std::set<int64_t> stored;
  for (const Piece& piece : have)
    for (int64_t i = 0; i < piece.elements(); ++i) stored.insert(global_index(piece, i));
  for (int64_t i = 0; i < want.elements(); ++i)
    if (!stored.contains(global_index(want, i))) return false;
  return true;
}

/// Every wanted element once, in order, from the same element of the parameter.
void check_plan(const std::vector<Piece>& have, const Piece& want, const std::vector<CopyRange>& copies) {
  int64_t next = 0;
  for (const CopyRange& copy : copies) {
    REQUIRE(copy.target == next);
    REQUIRE(copy.count > 0);
    REQUIRE(copy.source >= 0);
    REQUIRE(copy.source + copy.count <= have[copy.have].elements());
    for (int64_t i = 0; i < copy.count; ++i)
      REQUIRE(global_index(have[copy.have], copy.source + i) == global_index(want, copy.target + i));
    next += copy.count;
  }
  REQUIRE(next == want.elements());
}

}  // namespace

TEST_CASE("plan_reads agrees with element-by-element search on random pieces") {
  std::mt19937 random(1);
  int covered = 0, uncovered = 0;
  for (int round = 0; round < 4000; ++round) {
    const std::vector<int64_t> shape = pick(0, 3, random) == 0
                                           ? std::vector<int64_t>{pick(1, 40, random)}
                                           : std::vector<int64_t>{pick(1, 9, random), pick(1, 9, random)};
    std::vector<Piece> have;
    for (int64_t n = pick(0, 6, random); n > 0; --n) have.push_back(random_piece(shape, random));
    const Piece want = random_piece(shape, random);
    CAPTURE(round, to_string(want));
    if (is_covered(have, want)) {
      ++covered;
      check_plan(have, want, plan_reads(have, want));
    } else {
      ++uncovered;
      REQUIRE_THROWS_AS(plan_reads(have, want), UserError);
    }
  }
  CHECK(covered > 500);
  CHECK(uncovered > 500);
}

TEST_CASE("plan_reads takes long ranges") {
  const std::vector<int64_t> shape{4, 6};
  const Piece whole = whole_piece("w", shape);
  SECTION("a whole parameter is one range") {
    CHECK(plan_reads(std::vector{whole}, whole) == std::vector<CopyRange>{{0, 0, 0, 24}});
  }
  SECTION("of replicas only one is read") {
    CHECK(plan_reads(std::vector{whole, whole}, whole) == std::vector<CopyRange>{{0, 0, 0, 24}});
  }
  SECTION("columns from a whole parameter are one range a row") {
    const Piece columns = box_piece("w", shape, {{0, 2}, {4, 3}});
    CHECK(plan_reads(std::vector{whole}, columns) ==
          std::vector<CopyRange>{{0, 2, 0, 3}, {0, 8, 3, 3}, {0, 14, 6, 3}, {0, 20, 9, 3}});
  }
  SECTION("the same columns are one range") {
    const Piece columns = box_piece("w", shape, {{0, 2}, {4, 3}});
    CHECK(plan_reads(std::vector{columns}, columns) == std::vector<CopyRange>{{0, 0, 0, 12}});
  }
  SECTION("a flat range from two flat shards") {
    const Box box{{0, 0}, {4, 6}};
    const std::vector have{flat_piece("w", shape, box, 0, 10), flat_piece("w", shape, box, 10, 24)};
    CHECK(plan_reads(have, flat_piece("w", shape, box, 7, 13)) ==
          std::vector<CopyRange>{{0, 7, 0, 3}, {1, 0, 3, 3}});
  }
}

TEST_CASE("plan_reads names the first element that nobody has") {
  const std::vector<Piece> have{box_piece("w", {4, 6}, {{0, 0}, {4, 5}})};
  CHECK_THROWS_WITH(plan_reads(have, whole_piece("w", {4, 6})),
                    Contains("w") && Contains("[0, 5]") && Contains("[4, 6]"));
  CHECK(plan_reads({}, flat_piece("w", {4, 6}, {{0, 0}, {4, 6}}, 3, 3)).empty());
}

TEST_CASE("find_fault knows what is not a piece") {
  constexpr int64_t kHuge = int64_t{1} << 40;
  CHECK(find_fault(whole_piece("w", {4, 6})).empty());
  CHECK(find_fault(box_piece("w", {4, 6}, {{4, 0}, {0, 6}})).empty());
  CHECK_THAT(find_fault({"", {4}, {{0}, {4}}, 0, 4}), Contains("name"));
  CHECK_THAT(find_fault({"w", {}, {{}, {}}, 0, 1}), Contains("0 dimensions"));
  CHECK_THAT(find_fault({"w", {1, 2, 3}, {{0, 0, 0}, {1, 2, 3}}, 0, 6}), Contains("3 dimensions"));
  CHECK_THAT(find_fault({"w", {4, 6}, {{0}, {4}}, 0, 4}), Contains("2 dimensions"));
  CHECK_THAT(find_fault({"w", {4, 0}, {{0, 0}, {4, 0}}, 0, 0}), Contains("impossible shape"));
  CHECK_THAT(find_fault({"w", {kHuge, kHuge}, {{0, 0}, {1, 1}}, 0, 1}), Contains("impossible shape"));
  CHECK_THAT(find_fault({"w", {4, 6}, {{3, 0}, {2, 6}}, 0, 12}), Contains("outside shape [4, 6]"));
  CHECK_THAT(find_fault({"w", {4, 6}, {{-1, 0}, {2, 6}}, 0, 12}), Contains("outside shape"));
  CHECK_THAT(find_fault({"w", {4}, {{0}, {4}}, 0, 5}), Contains("0:5"));
  CHECK_THAT(find_fault({"w", {4}, {{0}, {4}}, 3, 2}), Contains("3:2"));
}

TEST_CASE("pieces print as slices") {
  CHECK(to_string(whole_piece("w", {4, 16})) == "w");
  CHECK(to_string(box_piece("w", {4, 16}, {{0, 8}, {4, 8}})) == "w[0:4,8:16]");
  CHECK(to_string(flat_piece("w", {4, 16}, {{0, 8}, {4, 8}}, 5, 20)) == "w[0:4,8:16]{5:20}");
}
