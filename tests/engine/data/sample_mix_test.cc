#include "engine/data/sample_mix.h"

#include "tests/engine/data/data_files.h"

#include <catch2/catch.hpp>

#include <cmath>
#include <map>
#include <numeric>
#include <set>

using namespace titan;
using namespace titan::test;
using Catch::Contains;

namespace {

std::vector<int64_t> whole(const std::vector<std::string_view>& weights) { return whole_weights(weights); }

/// The largest |drawn - share| over all prefixes of two periods, in samples.
double largest_error(const std::vector<int64_t>& weights) {
  const int64_t period = std::accumulate(weights.begin(), weights.end(), int64_t{0});
  const SampleMix mix(std::vector<int64_t>(weights.size(), 7), weights, 1);
  std::vector<int64_t> drawn(weights.size(), 0);
  double largest = 0;
  for (int64_t n = 0; n < 2 * period; ++n) {
    ++drawn[mix(n).part];
    for (size_t i = 0; i < weights.size(); ++i) {
      const double share = static_cast<double>((n + 1) * weights[i]) / static_cast<double>(period);
      largest = std::max(largest, std::abs(static_cast<double>(drawn[i]) - share));
      if (n % 17 == 0) REQUIRE(mix.drawn(i, n + 1) == drawn[i]);
    }
  }
  return largest;
}

}  // namespace

TEST_CASE("weights become the smallest whole numbers in their ratio") {
  CHECK(whole({"0.7", "0.3"}) == std::vector<int64_t>{7, 3});
  CHECK(whole({"1", "1", "2"}) == std::vector<int64_t>{1, 1, 2});
  CHECK(whole({"0.50", ".25", "0.25"}) == std::vector<int64_t>{2, 1, 1});
  CHECK(whole({"300", "100."}) == std::vector<int64_t>{3, 1});
  CHECK(whole({"0.000001", "0.999999"}) == std::vector<int64_t>{1, 999999});
  CHECK(whole({"5"}) == std::vector<int64_t>{1});
}

TEST_CASE("weights that are none are refused with their text") {
  for (const std::string_view bad :
       {"", "0", "0.0", "-1", "1e3", "nan", ".", "1.2.3", " 1", "1 ", "0x1", "1234567890", "0.1234567890"}) {
    INFO(bad);
    CHECK_THAT(error_of([&] { whole({"1", bad}); }), Contains(fmt::format("\"{}\" is not a positive", bad)));
  }
  CHECK_THAT(error_of([] { whole({"0.1234567", "0.7654321"}); }), Contains("round them"));
  CHECK_THAT(error_of([] { whole({"999999999.999999999", "0.000000001"}); }), Contains("round them"));
  CHECK_THAT(error_of([] { whole(std::vector<std::string_view>(1001, "1")); }), Contains("at most 1000"));
}

TEST_CASE("every prefix of a mixture holds the weights' shares to less than one sample") {
  for (const std::vector<int64_t>& weights : std::vector<std::vector<int64_t>>{{1},
                                                                               {7, 3},
                                                                               {1, 1},
                                                                               {1, 999},
                                                                               {500, 300, 150, 49, 1},
                                                                               {1, 1, 1, 1, 1, 1, 1},
                                                                               {9, 9, 9, 1, 1, 1, 60},
                                                                               {997, 991, 983, 977, 2}}) {
    INFO(Catch::Detail::stringify(weights));
    CHECK(largest_error(weights) < 1.0);
  }
  CHECK(largest_error({7, 3}) <= 0.5);
  std::vector<int64_t> many(300);
  for (size_t i = 0; i < many.size(); ++i) many[i] = static_cast<int64_t>(1 + i * i % 37);
  CHECK(largest_error(many) < 1.0);
}

TEST_CASE("each data set of a mixture visits every window once an epoch") {
  const std::vector<int64_t> windows = {50, 8, 31};
  const SampleMix mix(windows, {6, 3, 1}, 5);
  std::map<std::pair<size_t, int64_t>, std::set<int64_t>> seen;
  for (int64_t n = 0; n < 1000; ++n) {
    const SampleMix::Sample sample = mix(n);
    REQUIRE((sample.window >= 0 && sample.window < windows[sample.part]));
    CHECK(seen[{sample.part, sample.epoch}].insert(sample.window).second);
    CHECK(mix.epoch(n) >= sample.epoch);
  }
  for (const auto& [of, visited] : seen) {
    const bool last = seen.count({of.first, of.second + 1}) == 0;
    if (!last) CHECK(visited.size() == static_cast<size_t>(windows[of.first]));
  }
  CHECK(mix.epoch(0) == 0);
  CHECK(mix.epoch(999) == (300 - 1) / 8);
}

TEST_CASE("one data set alone keeps its order, and data sets of one size have different ones") {
  const SampleOrder order(40, 9);
  const SampleMix alone({40}, {1}, 9), pair({40, 40}, {1, 1}, 9);
  std::vector<int64_t> first, second;
  for (int64_t n = 0; n < 80; ++n) {
    CHECK(alone(n).window == order(n));
    CHECK(alone(n).epoch == order.epoch(n));
    (pair(n).part == 0 ? first : second).push_back(pair(n).window);
  }
  CHECK(first.size() == second.size());
  CHECK(first != second);
}

TEST_CASE("a sample far into a run is found as fast as the first") {
  const SampleMix mix({3, 1'000'000'007}, {1, 999'999}, 2);
  const int64_t far = int64_t{1} << 55;
  CHECK(mix.drawn(0, far) + mix.drawn(1, far) == far);
  CHECK(mix(far).part < 2);
}
