#include "engine/metrics/step_line.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "engine/metrics/step_metrics.h"

namespace titan {
namespace {

StepMetrics example() {
  StepMetrics m;
  m.step = 1;
  m.loss = 8.0491;
  m.grad_norm = 1.2345;
  m.memory_bytes = 1'975'684'956;  // 1.84 GiB
  m.memory_percent = 1.93;
  m.tps = 3144.6;
  m.tflops = 11.61;
  m.mfu = 1.17;
  return m;
}

TEST_CASE("the step line is TorchTitan's") {
  CHECK(step_line(example(), false) ==
        "step:  1  loss:  8.0491  grad_norm:  1.2345  memory:  1.84GiB(1.93%)  tps: 3,145  tflops: 11.61  "
        "mfu: 1.17%");
}

TEST_CASE("large and small values keep the format") {
  StepMetrics m = example();
  m.step = 12345;
  m.loss = 0.00004;
  m.grad_norm = 1234.56789;
  m.memory_bytes = int64_t{120} << 30;
  m.memory_percent = 86.3333;
  m.tps = 1234567.4;
  m.tflops = 1253.414;
  m.mfu = 125.0;
  CHECK(step_line(m, false) ==
        "step: 12345  loss:  0.0000  grad_norm: 1234.5679  memory: 120.00GiB(86.33%)  tps: 1,234,567  "
        "tflops: 1,253.41  mfu: 125.00%");
}

TEST_CASE("what is not known is not guessed") {
  StepMetrics m = example();
  m.memory_percent.reset();
  m.mfu.reset();
  CHECK(step_line(m, false) ==
        "step:  1  loss:  8.0491  grad_norm:  1.2345  memory:  1.84GiB  tps: 3,145  tflops: 11.61  mfu: n/a");
}

TEST_CASE("numbers that are none are shown as such") {
  StepMetrics m = example();
  m.loss = std::nan("");
  m.grad_norm = std::numeric_limits<double>::infinity();
  m.tps = std::numeric_limits<double>::infinity();
  CHECK(step_line(m, false) ==
        "step:  1  loss:     nan  grad_norm:     inf  memory:  1.84GiB(1.93%)  tps: inf  tflops: 11.61  mfu: "
        "1.17%");
}

TEST_CASE("colours stand before each field and end with the line") {
  CHECK(step_line(example(), true) ==
        "\033[31mstep:  1  \033[32mloss:  8.0491  \033[38;2;180;60;0mgrad_norm:  1.2345  "
        "\033[38;2;54;234;195mmemory:  1.84GiB(1.93%)  \033[34mtps: 3,145  \033[36mtflops: 11.61  "
        "\033[35mmfu: 1.17%\033[39m");
}

TEST_CASE("the validation line") {
  const ValidationMetrics m{
      .step = 5, .loss = 4.1, .memory_bytes = 1'975'684'956, .memory_percent = 1.93, .tps = 9000};
  CHECK(validation_line(m, false) == "validate step:  5  loss:  4.1000  memory:  1.84GiB(1.93%)  tps: 9,000");
  CHECK(validation_line(m, true) ==
        "\033[33mvalidate step:  5  \033[32mloss:  4.1000  \033[38;2;54;234;195mmemory:  1.84GiB(1.93%)  "
        "\033[34mtps: 9,000\033[39m");
}

TEST_CASE("thousands are grouped in threes from the point") {
  CHECK(with_thousands(int64_t{0}) == "0");
  CHECK(with_thousands(int64_t{999}) == "999");
  CHECK(with_thousands(int64_t{1000}) == "1,000");
  CHECK(with_thousands(int64_t{-123456}) == "-123,456");
  CHECK(with_thousands(int64_t{8'030'261'248}) == "8,030,261,248");
  CHECK(with_thousands(999.996, 2) == "1,000.00");
  CHECK(with_thousands(0.12345, 4) == "0.1235");
  CHECK(with_thousands(-std::numeric_limits<double>::infinity(), 2) == "-inf");
}

}  // namespace
}  // namespace titan
