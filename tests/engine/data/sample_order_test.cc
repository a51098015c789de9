#include "engine/data/sample_order.h"

#include <catch2/catch.hpp>

#include <cstdint>
#include <vector>

using namespace titan;

namespace {

std::vector<int64_t> epoch_order(int64_t windows, uint64_t seed, int64_t epoch) {
  const SampleOrder order(windows, seed);
  std::vector<int64_t> out;
  for (int64_t i = 0; i < windows; ++i) out.push_back(order(epoch * windows + i));
  return out;
}

bool is_permutation_of_all(const std::vector<int64_t>& order) {
  std::vector<bool> seen(order.size());
  for (const int64_t window : order) {
    if (window < 0 || window >= static_cast<int64_t>(order.size()) || seen[static_cast<size_t>(window)])
      return false;
    seen[static_cast<size_t>(window)] = true;
  }
  return true;
}

}  // namespace

TEST_CASE("every epoch visits every window exactly once") {
  for (int64_t windows = 1; windows <= 300; ++windows) {
    for (const int64_t epoch : {0, 1, 7}) CHECK(is_permutation_of_all(epoch_order(windows, 42, epoch)));
  }
  for (const int64_t windows : {1023, 1024, 1025, 65535, 65537, 100003, 262145}) {
    CHECK(is_permutation_of_all(epoch_order(windows, 1, 3)));
  }
}

TEST_CASE("the order depends on the seed and on the epoch, and on nothing else") {
  CHECK(epoch_order(1000, 5, 0) == epoch_order(1000, 5, 0));
  CHECK(epoch_order(1000, 5, 0) != epoch_order(1000, 6, 0));
  CHECK(epoch_order(1000, 5, 0) != epoch_order(1000, 5, 1));
  CHECK(epoch_order(1000, 0, 1) != epoch_order(1000, 1, 0));  // seed and epoch are not interchangeable
}

TEST_CASE("the order is pinned: a run may be resumed by another build") {
  CHECK(epoch_order(8, 42, 0) == std::vector<int64_t>{3, 2, 1, 7, 5, 4, 0, 6});
  CHECK(epoch_order(10, 42, 1) == std::vector<int64_t>{6, 1, 4, 7, 0, 5, 3, 8, 2, 9});
}

TEST_CASE("the order mixes: neighbours land far apart") {
  // A random permutation of n has a mean |order(k+1) - order(k)| of (n+1)/3, and about one fixed point.
  const int64_t n = 20000;
  const std::vector<int64_t> order = epoch_order(n, 3, 0);
  double distance = 0;
  int fixed_points = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    if (i > 0) distance += static_cast<double>(std::abs(order[i] - order[i - 1]));
    fixed_points += order[i] == static_cast<int64_t>(i);
  }
  CHECK(distance / static_cast<double>(n - 1) == Approx(n / 3.0).epsilon(0.03));
  CHECK(fixed_points < 10);
}

TEST_CASE("windows beyond 2^32 stay in range and are computed without memory") {
  const int64_t windows = int64_t{1} << 41;
  const SampleOrder order(windows - 12345, 9);
  for (int64_t k = 0; k < 1000; ++k) {
    const int64_t window = order(k * 1'000'003'000 % windows);
    CHECK(window >= 0);
    CHECK(window < windows - 12345);
  }
}
