#include "kernels/cpu/lanes.h"

#include <catch2/catch.hpp>
#include <chrono>

namespace titan::cpu {
namespace {

TEST_CASE("a lane runs its jobs one after the other on one thread") {
  Lane lane({});
  std::thread::id first, second;
  lane.start([&] { first = std::this_thread::get_id(); });
  lane.join();
  lane.start([&] { second = std::this_thread::get_id(); });
  lane.join();
  CHECK(first == second);
  CHECK(first != std::this_thread::get_id());
}

TEST_CASE("a wait ends when the count is reached, asleep or spinning") {
  Progress progress;
  int written = 0;
  std::thread writer([&] {
    for (int i = 1; i <= 3; ++i) {
      if (i == 2) std::this_thread::sleep_for(std::chrono::milliseconds(20));
      written = i;
      progress.advance();
      progress.wait_for(i);  // its own count: at once
    }
  });
  progress.wait_for(3);
  CHECK(written == 3);
  writer.join();
}

TEST_CASE("cancel ends a wait") {
  Progress progress;
  std::thread canceller([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    progress.cancel();
  });
  CHECK_THROWS_AS(progress.wait_for(1), Cancelled);
  CHECK_THROWS_AS(progress.wait_for(0), Cancelled);
  canceller.join();
}

}  // namespace
}  // namespace titan::cpu
