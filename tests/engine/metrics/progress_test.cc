#include "engine/metrics/progress.h"

#include <catch2/catch.hpp>
#include <sstream>
#include <thread>
#include <vector>

namespace titan {
namespace {

struct FakeScreen {
  std::ostringstream out;
  double now = 0.0;

  ProgressOptions options(bool terminal) {
    return {.stream = &out, .terminal = terminal, .clock = [this] { return now; }};
  }
};

TEST_CASE("on a terminal a bar redraws itself and gives way to a last line") {
  FakeScreen screen;
  ProgressBar progress("Tokenizing", 39'000'000, "B", screen.options(true));
  screen.now = 3.0;
  progress.advance(19'500'000);
  CHECK(screen.out.str() == "\rTokenizing [##########----------]  50%  19.5MB of 39.0MB, 6.5MB/s, 0:03 left");
  screen.out.str("");
  screen.now = 3.05;
  progress.advance(1);
  CHECK(screen.out.str().empty());  // too soon to draw again
  screen.now = 6.0;
  progress.advance(19'499'999);
  CHECK_THAT(screen.out.str(),
             Catch::StartsWith("\rTokenizing [####################] 100%  39.0MB of 39.0MB"));
  screen.out.str("");
  progress.finish();
  CHECK_THAT(screen.out.str(), Catch::EndsWith("\rTokenizing done: 39.0MB in 0:06\n"));
}

TEST_CASE("elsewhere a plain line comes every ten seconds") {
  FakeScreen screen;
  ProgressBar progress("Tokenizing", 1000, " tokens", screen.options(false));
  for (int second = 1; second <= 25; ++second) {
    screen.now = second;
    progress.advance(20);
  }
  CHECK(screen.out.str() ==
        "Tokenizing  20%  200 tokens of 1.0k tokens, 20 tokens/s, 0:40 left\n"
        "Tokenizing  40%  400 tokens of 1.0k tokens, 20 tokens/s, 0:30 left\n");
}

TEST_CASE("an unknown total has no percentage") {
  FakeScreen screen;
  ProgressBar progress("Reading", 0, "B", screen.options(true));
  screen.now = 1.0;
  progress.advance(950);
  CHECK(screen.out.str() == "\rReading  950B, 950B/s");
}

TEST_CASE("a shorter line wipes the longer one before it") {
  FakeScreen screen;
  ProgressBar progress("Reading", 0, "B", screen.options(true));
  screen.now = 1.0;
  progress.advance(999'900);
  screen.now = 2.0;
  screen.out.str("");
  progress.advance(2'000'100);
  CHECK(screen.out.str() == "\rReading  3.0MB, 1.5MB/s    ");
}

TEST_CASE("an abandoned bar is wiped") {
  FakeScreen screen;
  {
    ProgressBar progress("Reading", 0, "B", screen.options(true));
    screen.now = 1.0;
    progress.advance(950);
    screen.out.str("");
  }
  CHECK(screen.out.str() == "\r" + std::string(21, ' ') + "\r");
}

TEST_CASE("threads may advance together") {
  FakeScreen screen;
  ProgressBar progress("Counting", 0, "B", screen.options(false));
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 1000; ++i) progress.advance(1);
    });
  for (auto& thread : threads) thread.join();
  progress.finish();
  CHECK_THAT(screen.out.str(), Catch::Contains("4.0kB"));
}

}  // namespace
}  // namespace titan
