// One save at a time beside the training: its end, its failure, and what happens if nobody asks.
#include "engine/checkpoint/background_save.h"

#include <catch2/catch.hpp>

#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <chrono>
#include <sstream>
#include <thread>

#include "engine/checkpoint/catalog.h"
#include "kernels/base/error.h"
#include "tests/engine/checkpoint/fixture.h"
#include "tests/support/temp_dir.h"

using namespace titan;
using namespace titan::test;
using Catch::Contains;

namespace {

void wait_until(const std::function<bool()>& condition) {
  while (!condition()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

}  // namespace

TEST_CASE("a save in the background ends when it has written, and not before") {
  const TempDir folder;
  RankState state = whole_state();
  state.fill(3);
  SoloCoordinator solo;
  std::atomic<bool> go{false};
  SaveOptions options;
  options.hook = [&](std::string_view, const auto&) { wait_until([&] { return go.load(); }); };
  BackgroundSave background;
  CHECK_FALSE(background.pending());
  CHECK_FALSE(background.ended());
  background.start(3, [&] {
    return save_checkpoint(folder.path(), {run_at(3), state.tensors()}, solo, options);
  });
  CHECK(background.pending());
  CHECK_FALSE(background.ended());
  CHECK(background.step() == 3);
  CHECK_THROWS_AS(background.start(4, [] { return SaveResult(); }), InternalError);
  CHECK_FALSE(latest_checkpoint(folder.path()).has_value());
  go = true;
  wait_until([&] { return background.ended(); });
  CHECK(background.pending());
  state.fill(4);  // the save has ended: its memory is free
  const SaveResult saved = background.take();
  CHECK(saved.bytes > 0);
  CHECK_FALSE(background.pending());
  CHECK(load_small(saved.path, 3) == 0);
}

TEST_CASE("a failure in the background is thrown where the result is taken, and another save may follow") {
  BackgroundSave background;
  background.start(3, []() -> SaveResult { throw UserError("the disk is full"); });
  CHECK_THROWS_WITH(background.take(), "the disk is full");
  CHECK_FALSE(background.pending());
  background.start(4, [] { return SaveResult{"step-4", 5, 6}; });
  CHECK(background.take().bytes == 5);
}

TEST_CASE("what nobody has waited for ends before the object does, and its failure is logged") {
  std::ostringstream log;
  const auto before = spdlog::default_logger();
  spdlog::set_default_logger(
      std::make_shared<spdlog::logger>("", std::make_shared<spdlog::sinks::ostream_sink_mt>(log)));
  std::atomic<bool> done{false};
  {
    BackgroundSave background;
    background.start(7, [&]() -> SaveResult {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      done = true;
      throw UserError("the disk is full");
    });
  }
  spdlog::set_default_logger(before);
  CHECK(done);
  CHECK_THAT(log.str(), Contains("The checkpoint of step 7 was not saved: the disk is full"));
}
