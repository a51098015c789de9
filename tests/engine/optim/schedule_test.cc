#include "engine/optim/schedule.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "kernels/base/error.h"

namespace titan {
namespace {

std::vector<double> table(const Schedule& schedule) {
  std::vector<double> out;
  for (int64_t step = 0; step < schedule.total_steps(); ++step) out.push_back(schedule.multiplier(step));
  return out;
}

void check_table(const ScheduleOptions& options, const std::vector<double>& expected) {
  const Schedule schedule(options);
  const std::vector<double> actual = table(schedule);
  REQUIRE(actual.size() == expected.size());
  for (size_t step = 0; step < expected.size(); ++step) {
    INFO("step " << step);
    CHECK(actual[step] == Approx(expected[step]).margin(1e-15));
  }
  CHECK(schedule.warnings().empty());
}

TEST_CASE("the debug model's recipe: W = 2, D = 8, so S = 1 of T = 10") {
  ScheduleOptions options{.training_steps = 10, .warmup_steps = 2, .decay_ratio = 0.8};
  check_table(options, {0.5, 1, 1, 7. / 8, 6. / 8, 5. / 8, 4. / 8, 3. / 8, 2. / 8, 1. / 8});
}

TEST_CASE("without a decay ratio the decay starts right after the warmup") {
  check_table({.training_steps = 6, .warmup_steps = 2}, {0.5, 1, 1, 0.75, 0.5, 0.25});
}

TEST_CASE("the three decay curves, scaled to the minimum") {
  ScheduleOptions options{.training_steps = 8, .warmup_steps = 2, .decay_ratio = 0.5, .min_lr_factor = 0.1};
  SECTION("linear") {
    options.decay_type = Decay::linear;
    check_table(options, {0.5, 1, 1, 1, 1, 0.775, 0.55, 0.325});
  }
  SECTION("sqrt") {
    options.decay_type = Decay::sqrt;
    check_table(options,
                {0.5, 1, 1, 1, 1, 0.55, 0.1 + 0.9 * (1 - std::sqrt(0.5)), 0.1 + 0.9 * (1 - std::sqrt(0.75))});
  }
  SECTION("cosine") {
    options.decay_type = Decay::cosine;
    const double root = std::sqrt(0.5);
    check_table(options, {0.5, 1, 1, 1, 1, 0.1 + 0.45 * (1 + root), 0.55, 0.1 + 0.45 * (1 - root)});
  }
}

TEST_CASE("phases may be empty") {
  SECTION("no warmup") { check_table({.training_steps = 4, .warmup_steps = 0}, {1, 0.75, 0.5, 0.25}); }
  SECTION("no decay") {
    check_table({.training_steps = 4, .warmup_steps = 2, .decay_ratio = 0.0}, {0.5, 1, 1, 1});
  }
  SECTION("only warmup") { check_table({.training_steps = 4, .warmup_steps = 4}, {0.25, 0.5, 0.75, 1}); }
  SECTION("one step") { check_table({.training_steps = 1, .warmup_steps = 0}, {1}); }
}

TEST_CASE("half steps of decay round to even") {
  const auto decay = [](int64_t total, double ratio) {
    return Schedule({.training_steps = total, .warmup_steps = 0, .decay_ratio = ratio}).decay_steps();
  };
  CHECK(decay(5, 0.5) == 2);  // 2.5
  CHECK(decay(7, 0.5) == 4);  // 3.5
  CHECK(decay(10, 0.26) == 3);
}

TEST_CASE("any schedule rises by (s + 1) / W, never jumps, falls and ends above zero") {
  for (const Decay type : {Decay::linear, Decay::sqrt, Decay::cosine})
    for (const int64_t total : {1, 2, 3, 17, 1000})
      for (const int64_t warmup : {0, 1, 2, 16})
        for (const double ratio : {0.0, 0.1, 0.5, 0.8, 1.0})
          for (const double minimum : {0.0, 0.3}) {
            CAPTURE(static_cast<int>(type), total, warmup, ratio, minimum);
            const Schedule schedule({.training_steps = total,
                                     .warmup_steps = warmup,
                                     .decay_ratio = ratio,
                                     .decay_type = type,
                                     .min_lr_factor = minimum});
            const auto values = table(schedule);
            const int64_t w = schedule.warmup_steps();
            const int64_t d = schedule.decay_steps();
            REQUIRE(w + d <= total);
            REQUIRE(schedule.stable_steps() >= 1);
            REQUIRE(values.back() > minimum);
            for (int64_t s = 0; s < total; ++s) {
              if (s < w) REQUIRE(values[s] == static_cast<double>(s + 1) / static_cast<double>(w));
              if (s >= w && s < total - d + 1) REQUIRE(values[s] == 1.0);
              if (s > w) REQUIRE(values[s] <= values[s - 1]);
              // sqrt is the steepest: its first step takes sqrt(1 / D) of the way.
              if (s > w)
                REQUIRE(values[s - 1] - values[s] <= std::sqrt(1.0 / static_cast<double>(d)) + 1e-12);
            }
          }
}

TEST_CASE("a warmup longer than the run is shortened, and says so") {
  const Schedule schedule({.training_steps = 50, .warmup_steps = 200});
  CHECK(schedule.warmup_steps() == 50);
  CHECK(schedule.decay_steps() == 0);
  CHECK(schedule.multiplier(49) == 1.0);
  REQUIRE(schedule.warnings().size() == 1);
  CHECK_THAT(schedule.warnings()[0],
             Catch::Contains("warmup_steps = 200") && Catch::Contains("shortened to 50"));
}

TEST_CASE("a decay that does not fit is shortened, and says so") {
  const Schedule schedule({.training_steps = 100, .warmup_steps = 30, .decay_ratio = 0.8});
  CHECK(schedule.warmup_steps() == 30);
  CHECK(schedule.decay_steps() == 70);
  REQUIRE(schedule.warnings().size() == 1);
  CHECK_THAT(schedule.warnings()[0], Catch::Contains("30") && Catch::Contains("80") && Catch::Contains("70"));
}

TEST_CASE("total_steps sets the horizon, whatever the number of training steps") {
  const Schedule whole({.training_steps = 1000, .warmup_steps = 10});
  const Schedule part({.training_steps = 100, .total_steps = 1000, .warmup_steps = 10});
  for (int64_t step = 0; step < 1000; ++step) REQUIRE(part.multiplier(step) == whole.multiplier(step));
  CHECK(part.warnings().empty());

  const Schedule longer(
      {.training_steps = 200, .total_steps = 100, .warmup_steps = 10, .min_lr_factor = 0.25});
  CHECK(longer.multiplier(99) > 0.25);
  CHECK(longer.multiplier(100) == 0.25);
  CHECK(longer.multiplier(199) == 0.25);
  CHECK(longer.warnings().size() == 1);
}

TEST_CASE("values that no schedule can have are refused by name") {
  const auto message = [](const ScheduleOptions& options) -> std::string {
    try {
      Schedule{options};
    } catch (const UsageError& error) {
      return error.what();
    }
    return "accepted";
  };
  CHECK_THAT(message({.training_steps = 0}), Catch::Contains("training.steps = 0"));
  CHECK_THAT(message({.total_steps = 0}), Catch::Contains("lr_scheduler.total_steps = 0"));
  CHECK_THAT(message({.warmup_steps = -1}), Catch::Contains("warmup_steps = -1"));
  CHECK_THAT(message({.decay_ratio = 1.5}), Catch::Contains("decay_ratio = 1.5"));
  CHECK_THAT(message({.decay_ratio = std::nan("")}), Catch::Contains("decay_ratio"));
  CHECK_THAT(message({.min_lr_factor = -0.1}), Catch::Contains("min_lr_factor = -0.1"));
}

TEST_CASE("decay types by name") {
  CHECK(parse_decay("linear") == Decay::linear);
  CHECK(parse_decay("sqrt") == Decay::sqrt);
  CHECK(parse_decay("cosine") == Decay::cosine);
  CHECK_FALSE(parse_decay("Linear"));
}

TEST_CASE("AdamW's scalars: the first step corrects to exactly the gradient, later ones hardly at all") {
  const Schedule schedule({.training_steps = 10000, .warmup_steps = 4, .decay_ratio = 0.0});
  const StepScalars first = step_scalars(schedule, 8e-4, 0.9, 0.95, 0);
  CHECK(first.lr == static_cast<float>(2e-4));
  CHECK(first.bias_correction1 == static_cast<float>(1 - 0.9));
  CHECK(first.bias_correction2 == static_cast<float>(1 - 0.95));

  const StepScalars third = step_scalars(schedule, 8e-4, 0.9, 0.95, 2);
  CHECK(third.lr == static_cast<float>(6e-4));
  CHECK(third.bias_correction1 == Approx(0.271).epsilon(1e-7));
  CHECK(third.bias_correction2 == Approx(0.142625).epsilon(1e-7));

  const StepScalars late = step_scalars(schedule, 8e-4, 0.9, 0.95, 5000);
  CHECK(late.bias_correction1 == 1.0f);
  CHECK(late.bias_correction2 == 1.0f);
}

}  // namespace
}  // namespace titan
