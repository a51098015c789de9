#include "engine/metrics/tensorboard.h"

#include <catch2/catch.hpp>
#include <limits>
#include <vector>

#include "kernels/base/error.h"
#include "tests/engine/metrics/file_support.h"
#include "tests/support/temp_dir.h"

namespace titan {
namespace {

TEST_CASE("CRC-32C matches the vectors of RFC 3720, B.4") {
  CHECK(crc32c("") == 0);
  CHECK(crc32c("123456789") == 0xe3069283u);
  CHECK(crc32c(std::string(32, '\0')) == 0x8a9136aau);
  CHECK(crc32c(std::string(32, '\xff')) == 0x62a8ab43u);
}

// The golden file is what TensorBoard's own writer makes of these events:
// scripts/compare/check_tensorboard.py golden.
TEST_CASE("event files are byte for byte those of TensorBoard's writer") {
  const test::TempDir folder;
  TensorboardWriter writer(folder.path(), [] { return 1700000000.25; });
  const std::vector<Scalar> first = {
      {"loss_metrics/global_avg_loss", 8.0491}, {"grad_norm", 1.5}, {"mfu(%)", 0.0}};
  const std::vector<Scalar> second = {
      {"lr", 8e-4},
      {"n_tokens_seen", 1e15},
      {"loss_metrics/global_max_loss", std::numeric_limits<double>::quiet_NaN()}};
  writer.write(1, first);
  writer.write(300, second);
  writer.write(int64_t{1} << 40, {});
  CHECK(test::read_file(writer.path()) == test::read_file(TITAN_TEST_DATA "/metrics/events.golden"));
  CHECK_THAT(writer.path().filename().string(), Catch::StartsWith("events.out.tfevents.1700000000."));
}

TEST_CASE("the folder of a run is named by its local time") {
  CHECK_THAT(run_folder_name(1700000000.25), Catch::Matches(R"(202311(14|15)-\d{4})"));
}

TEST_CASE("TorchTitan's tags carry the metrics") {
  StepMetrics m;
  m.step = 3;
  m.loss = 2.5;
  m.max_loss = 2.75;
  m.grad_norm = 1.25;
  m.lr = 0.001;
  m.tokens_seen = 1000;
  m.clipped_steps = 3;
  m.clipped_steps_total = 8;
  m.norms = {{"a.weight", 0.25, 3}};
  m.memory_bytes = int64_t{3} << 29;
  m.memory_percent = 12.5;
  m.tps = 100;
  m.tflops = 0.5;
  m.mfu = 40;
  m.end_to_end_seconds = 2.0;
  m.data_loading_seconds = 0.5;
  const auto value = [all = scalars(m)](std::string_view tag) {
    for (const Scalar& scalar : all)
      if (scalar.tag == tag) return scalar.value;
    FAIL("no " << tag);
    return 0.0;
  };
  CHECK(value("loss_metrics/global_avg_loss") == 2.5);
  CHECK(value("loss_metrics/global_max_loss") == 2.75);
  CHECK(value("grad_norm") == 1.25);
  CHECK(value("lr") == 0.001);
  CHECK(value("n_tokens_seen") == 1000);
  CHECK(value("clipped_steps") == 3);
  CHECK(value("clipped_steps_total") == 8);
  CHECK(value("gradient_norm/a.weight") == 0.25);
  CHECK(value("weight_norm/a.weight") == 3);
  CHECK(value("memory/max_reserved(GiB)") == 1.5);
  CHECK(value("memory/max_reserved(%)") == 12.5);
  CHECK(value("throughput(tps)") == 100);
  CHECK(value("tflops") == 0.5);
  CHECK(value("mfu(%)") == 40);
  CHECK(value("time_metrics/end_to_end(s)") == 2.0);
  CHECK(value("time_metrics/data_loading(s)") == 0.5);
  CHECK(value("time_metrics/data_loading(%)") == 25);
  CHECK(scalars(m).size() == 17);
  m.mfu.reset();
  CHECK(scalars(m).size() == 16);
  CHECK(scalars(ValidationMetrics{.step = 1, .memory_percent = 1}).size() == 4);
}

TEST_CASE("a folder that cannot be made is reported") {
  CHECK_THROWS_AS(TensorboardWriter("/dev/null/tb"), UserError);
}

}  // namespace
}  // namespace titan
