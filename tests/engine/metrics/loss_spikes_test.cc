#include "engine/metrics/loss_spikes.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <random>

using titan::LossSpikes;

namespace {

/// A falling loss with normal noise: what a healthy run shows.
double healthy(int step, std::mt19937& random) {
  return 2 + 6 * std::exp(-step / 200.0) + std::normal_distribution(0.0, 0.05)(random);
}

int count_spikes(double deviations, int steps, double (*loss)(int, std::mt19937&)) {
  LossSpikes spikes(deviations);
  std::mt19937 random(1);
  int count = 0;
  for (int step = 0; step < steps; ++step)
    if (spikes.add(loss(step, random))) ++count;
  return count;
}

}  // namespace

TEST_CASE("a healthy run has no spikes, nor has one whose loss never moves") {
  CHECK(count_spikes(8, 5000, healthy) == 0);
  CHECK(count_spikes(8, 1000, [](int, std::mt19937&) { return 3.0; }) == 0);
  CHECK(count_spikes(8, 1000, [](int, std::mt19937&) { return 0.0; }) == 0);
}

TEST_CASE("a spike is told with the rule's level and limit") {
  LossSpikes spikes(8);
  for (int i = 0; i < 64; ++i) REQUIRE(!spikes.add(4 + 0.1 * (i % 3 - 1)));  // 3.9, 4, 4.1: MAD 0.1
  const double limit = 4 + 8 * 1.4826 * 0.1;
  CHECK(!spikes.add(limit - 0.01));
  const auto spike = spikes.add(limit + 0.01);
  REQUIRE(spike);
  CHECK(spike->level == Approx(4));
  CHECK(spike->limit == Approx(limit));
  CHECK(spike->untold == 0);
}

TEST_CASE("the deviation is at least one percent of the level") {
  LossSpikes spikes(8);
  for (int i = 0; i < 64; ++i) spikes.add(5.0);
  CHECK(!spikes.add(5.39));
  CHECK(spikes.add(5.41));
}

TEST_CASE("nothing is a spike before 16 losses are known, and nothing with 0 deviations") {
  LossSpikes spikes(8), off(0);
  for (int i = 0; i < 15; ++i) spikes.add(4), off.add(4);
  CHECK(!spikes.add(100));
  CHECK(spikes.add(100));
  for (int i = 0; i < 100; ++i) off.add(4);
  CHECK(!off.add(1e9));
}

TEST_CASE("spikes in a row are told once in 50 steps, with the number in between") {
  LossSpikes spikes(8);
  for (int i = 0; i < 64; ++i) spikes.add(4);
  CHECK(spikes.add(9));  // step 65
  for (int i = 0; i < 5; ++i) CHECK(!spikes.add(9));
  for (int i = 0; i < 44; ++i) CHECK(!spikes.add(4));
  const auto next = spikes.add(9);  // step 115
  REQUIRE(next);
  CHECK(next->untold == 5);
}

TEST_CASE("a loss that stays high becomes the level") {
  LossSpikes spikes(8);
  for (int i = 0; i < 64; ++i) spikes.add(4);
  for (int i = 0; i < 33; ++i) spikes.add(9);
  for (int i = 0; i < 60; ++i) CHECK(!spikes.add(9));
}
