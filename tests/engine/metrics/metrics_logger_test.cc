#include "engine/metrics/metrics_logger.h"

#include <catch2/catch.hpp>
#include <filesystem>

#include "engine/metrics/step_metrics.h"
#include "tests/engine/metrics/file_support.h"
#include "tests/engine/metrics/log_capture.h"
#include "tests/support/temp_dir.h"

namespace titan {
namespace {

namespace fs = std::filesystem;

StepMetrics at_step(int64_t step) {
  StepMetrics m;
  m.step = step;
  m.loss = 2.5;
  return m;
}

size_t count(const std::string& text, const std::string& part) {
  size_t n = 0;
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++n;
  return n;
}

TEST_CASE("one step goes to the log, metrics.jsonl and TensorBoard") {
  const test::TempDir folder;
  const test::LogCapture log;
  MetricsLogger metrics({.dump_folder = folder.path(), .tensorboard = true});
  metrics.log(at_step(1));
  metrics.log(ValidationMetrics{.step = 1, .loss = 3.5});

  CHECK_THAT(log.text(), Catch::Contains("INFO - step:  1  loss:  2.5000") &&
                             Catch::Contains("INFO - validate step:  1  loss:  3.5000"));
  CHECK(count(test::read_file(folder / "metrics.jsonl"), "\n") == 2);

  const fs::path run = metrics.tensorboard_folder();
  CHECK(run.parent_path() == folder / "tb");
  CHECK_THAT(run.filename().string(), Catch::Matches(R"(\d{8}-\d{4})"));
  const std::string events = test::read_file(fs::directory_iterator(run)->path());
  CHECK_THAT(events, Catch::Contains("brain.Event:2") && Catch::Contains("loss_metrics/global_avg_loss") &&
                         Catch::Contains("validation_metrics/loss"));
}

TEST_CASE("outputs that are not asked for stay away") {
  const test::TempDir folder;
  const test::LogCapture log;
  MetricsLogger metrics({.dump_folder = folder.path(), .step_lines = false, .jsonl = false});
  metrics.log(at_step(1));
  CHECK(log.text().empty());
  CHECK(fs::is_empty(folder.path()));
  CHECK(metrics.tensorboard_folder().empty());
}

TEST_CASE("each rank may have its own files") {
  const test::TempDir folder;
  const test::LogCapture log;
  MetricsLogger metrics(
      {.dump_folder = folder.path(), .tensorboard = true, .save_tb_folder = "board", .rank = 3});
  CHECK(fs::exists(folder / "rank_3" / "metrics.jsonl"));
  CHECK(metrics.tensorboard_folder().filename() == "rank_3");
  CHECK(metrics.tensorboard_folder().parent_path().parent_path() == folder / "board");
}

TEST_CASE("a resumed run continues its file") {
  const test::TempDir folder;
  const test::LogCapture log;
  {
    MetricsLogger metrics({.dump_folder = folder.path()});
    for (int64_t step = 1; step <= 3; ++step) metrics.log(at_step(step));
  }
  MetricsLogger metrics({.dump_folder = folder.path(), .resumed_step = 2});
  metrics.log(at_step(3));
  CHECK(count(test::read_file(folder / "metrics.jsonl"), "\n") == 3);
}

TEST_CASE("files that cannot be opened cost one warning each, and the steps go on") {
  const test::TempDir folder;
  test::write_file(folder / "file", "");
  const test::LogCapture log;
  MetricsLogger metrics({.dump_folder = folder / "file", .tensorboard = true});
  metrics.log(at_step(1));
  metrics.log(at_step(2));
  CHECK(count(log.text(), "WARNING") == 2);
  CHECK(count(log.text(), "INFO - step:") == 2);
  CHECK(metrics.tensorboard_folder().empty());
}

TEST_CASE("a full disk costs one warning a file, and lines return when there is room again") {
  const test::TempDir folder;
  const test::LogCapture log;
  MetricsLogger metrics({.dump_folder = folder.path(), .tensorboard = true});
  metrics.log(at_step(1));
  {
    const test::FileSizeLimit full(1);
    for (int64_t step = 2; step <= 4; ++step) metrics.log(at_step(step));
  }
  metrics.log(at_step(5));
  CHECK(count(log.text(), "WARNING") == 2);
  CHECK(count(log.text(), "INFO - step:") == 5);
  const std::string lines = test::read_file(folder / "metrics.jsonl");
  CHECK(count(lines, "\n") == 2);
  CHECK_THAT(lines, Catch::Contains("\"step\":1,") && Catch::Contains("\"step\":5,"));
}

}  // namespace
}  // namespace titan
