#include "engine/metrics/throughput.h"

#include <catch2/catch.hpp>

namespace titan {
namespace {

TEST_CASE("throughput is what happened since the last look") {
  double now = 100.0;
  ThroughputMeter meter(1, [&] { return now; });
  now += 2.0;
  meter.add_step(1000, 0.5);
  meter.add_step(3000, 0.1);
  const auto first = meter.take();
  CHECK(first.steps == 2);
  CHECK(first.seconds == Approx(2.0));
  CHECK(first.tps == Approx(2000.0));
  CHECK(first.end_to_end_seconds == Approx(1.0));
  CHECK(first.data_loading_seconds == Approx(0.3));

  now += 4.0;
  meter.add_step(400);
  const auto second = meter.take();
  CHECK(second.steps == 1);
  CHECK(second.tps == Approx(100.0));
  CHECK(second.end_to_end_seconds == Approx(4.0));
  CHECK(second.data_loading_seconds == 0.0);
}

TEST_CASE("ranks that share tokens share their throughput") {
  double now = 0.0;
  ThroughputMeter meter(8, [&] { return now; });
  now = 1.0;
  meter.add_step(8000);
  CHECK(meter.take().tps == Approx(1000.0));
}

TEST_CASE("validation does not count as training time") {
  double now = 0.0;
  ThroughputMeter meter(1, [&] { return now; });
  now = 11.0;
  meter.add_step(100);
  meter.exclude(10.0);
  CHECK(meter.take().tps == Approx(100.0));
}

TEST_CASE("an empty window is all zeros") {
  ThroughputMeter meter(1, [] { return 5.0; });
  const auto window = meter.take();
  CHECK(window.tps == 0.0);
  CHECK(window.end_to_end_seconds == 0.0);
}

TEST_CASE("the steady clock moves forward") {
  const double before = steady_seconds();
  CHECK(steady_seconds() >= before);
}

}  // namespace
}  // namespace titan
