#include "engine/bench/report.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <sstream>

#include "engine/bench/chart.h"

using namespace titan;
using Catch::Contains;

namespace {

BenchReport sample() {
  BenchReport report;
  report.recipe = "r.toml";
  report.keys = {"training.local_batch_size", "activation_checkpoint.mode"};
  report.notes = {"A note."};
  report.steps = 3;
  Trial ok;
  ok.values = {"2", "none"};
  ok.step_seconds = spread({0.3, 0.1, 0.2});
  ok.tokens_per_second = 12345.6;
  ok.tflops = 0.5;
  ok.speed_of_light = 41.25;
  ok.predicted_bytes = 3 << 20;
  ok.peak_resident_bytes = std::int64_t{5} << 30;
  Trial bad;
  bad.values = {"4", "a,\"b\""};
  bad.status = Trial::Status::invalid;
  bad.message = "mode = \"a\": expected one of \"none\", \"full\"";
  report.trials = {ok, bad};
  return report;
}

/// RFC 4180, as a reader of the file would.
std::vector<std::vector<std::string>> parse_csv(const std::string& text) {
  std::vector<std::vector<std::string>> rows(1, std::vector<std::string>(1));
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted && c == '"' && i + 1 < text.size() && text[i + 1] == '"') {
      rows.back().back() += text[++i];
    } else if (c == '"') {
      quoted = !quoted;
    } else if (c == ',' && !quoted) {
      rows.back().emplace_back();
    } else if (c == '\r' && !quoted) {
      ++i;
      rows.emplace_back(1);
    } else {
      rows.back().back() += c;
    }
  }
  rows.pop_back();
  return rows;
}

}  // namespace

TEST_CASE("quantiles lie between samples") {
  const Spread four = spread({4, 1, 3, 2});
  CHECK(four.count == 4);
  CHECK(four.min == 1);
  CHECK(four.quarter == Approx(1.75));
  CHECK(four.median == Approx(2.5));
  CHECK(four.three_quarters == Approx(3.25));
  CHECK(four.max == 4);
  const Spread one = spread({7});
  CHECK((one.min == 7 && one.quarter == 7 && one.median == 7 && one.three_quarters == 7 && one.max == 7));
  CHECK(spread({}).count == 0);
}

TEST_CASE("CSV gives back every field, and numbers in plain units") {
  const auto rows = parse_csv(bench_csv(sample()));
  REQUIRE(rows.size() == 3);
  const auto column = [&](const std::string& name) {
    return static_cast<std::size_t>(std::find(rows[0].begin(), rows[0].end(), name) - rows[0].begin());
  };
  for (const auto& row : rows) REQUIRE(row.size() == rows[0].size());
  CHECK(rows[1][column("step_seconds_median")] == "0.2");
  CHECK(rows[1][column("tokens_per_second")] == "12345.6");
  CHECK(rows[1][column("mfu_percent")].empty());
  CHECK(rows[1][column("planned_bytes")] == "3145728");
  CHECK(rows[2][1] == "a,\"b\"");
  CHECK(rows[2][column("message")] == sample().trials[1].message);
  CHECK(rows[2][column("step_seconds_median")].empty());
}

TEST_CASE("the table tells what ran, what did not, and why") {
  const std::string table = bench_table(sample());
  CHECK_THAT(table, Contains("200 ms") && Contains("12,346") && Contains("41.2 %") && Contains("3.0 MiB") &&
                        Contains("5.00 GiB") && Contains("n/a") && Contains("A note."));
  CHECK_THAT(table, Contains("invalid: mode = \"a\": expected one of"));
  std::istringstream lines(table);
  std::string head, row;
  std::getline(lines, head);
  std::getline(lines, row);
  CHECK(head.size() == row.size());
}

TEST_CASE("JSON holds the same numbers, and null where there is none") {
  const auto json = nlohmann::json::parse(bench_json(sample()));
  CHECK(json["trials"][0]["step_seconds"]["median"] == 0.2);
  CHECK(json["trials"][0]["mfu_percent"].is_null());
  CHECK(json["trials"][0]["values"]["activation_checkpoint.mode"] == "none");
  CHECK(json["trials"][1]["status"] == "invalid");
  CHECK(!json["trials"][1].contains("tokens_per_second"));
}

TEST_CASE("ticks start at zero, are few, and reach the largest value") {
  for (const double most : {1e-3, 0.7, 1.0, 3.0, 9.99, 10.0, 47.0, 600.0, 12345.0}) {
    const std::vector<double> ticks = round_ticks(most);
    INFO(most);
    CHECK(ticks.front() == 0);
    CHECK(ticks.back() >= most * (1 - 1e-9));
    CHECK(ticks.back() <= most * 2.1);
    CHECK(ticks.size() <= 7);
  }
  CHECK(round_ticks(0) == std::vector<double>{0, 1});
  CHECK(chart_number(1234567) == "1,234,567");
  CHECK(chart_number(-1000) == "-1,000");
  CHECK(chart_number(3.14159) == "3.142");
}
