#include "engine/metrics/jsonl.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>
#include <vector>

#include "engine/metrics/step_metrics.h"
#include "kernels/base/error.h"
#include "tests/engine/metrics/file_support.h"
#include "tests/support/temp_dir.h"

namespace titan {
namespace {

using Json = nlohmann::json;

StepMetrics at_step(int64_t step) {
  StepMetrics m;
  m.step = step;
  m.loss = 0.1 + 0.2;
  return m;
}

// The steps of the lines, each of which must be a JSON object with its end.
std::vector<int64_t> steps(const std::filesystem::path& path) {
  const std::string text = test::read_file(path);
  REQUIRE((text.empty() || text.back() == '\n'));
  std::vector<int64_t> out;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) out.push_back(Json::parse(line).at("step"));
  return out;
}

TEST_CASE("every metric is in its line and reads back to the same number") {
  StepMetrics m = at_step(7);
  m.lr = 8e-4 / 3.0;
  m.tokens_seen = 15'000'000'000'000;
  m.mfu = 41.5;
  m.tps = 1e300;
  m.clipped_steps = 3;
  m.clipped_steps_total = 8;
  m.beside_arena_gib = 1.25;
  const Json json = Json::parse(to_json(m));
  CHECK(json["kind"] == "train");
  CHECK(json["step"] == 7);
  CHECK(json["loss"].get<double>() == m.loss);
  CHECK(json["lr"].get<double>() == m.lr);
  CHECK(json["tokens_seen"] == 15'000'000'000'000);
  CHECK(json["mfu"] == 41.5);
  CHECK(json["tps"] == 1e300);
  CHECK(json["clipped_steps"] == 3);
  CHECK(json["clipped_steps_total"] == 8);
  CHECK(json["memory_percent"].is_null());
  CHECK(json["beside_arena_gib"] == 1.25);
  CHECK(json.size() == 18);
}

TEST_CASE("norms of parameters are two objects by name") {
  StepMetrics m = at_step(1);
  m.norms = {{"a.weight", 0.25, 3}, {"b.weight", std::nan(""), 4}};
  const Json json = Json::parse(to_json(m));
  CHECK(json.size() == 20);
  CHECK(json["gradient_norms"] == Json({{"a.weight", 0.25}, {"b.weight", nullptr}}));
  CHECK(json["weight_norms"] == Json({{"a.weight", 3.0}, {"b.weight", 4.0}}));
}

TEST_CASE("numbers that JSON does not have are null") {
  StepMetrics m = at_step(1);
  m.loss = std::nan("");
  m.grad_norm = -std::numeric_limits<double>::infinity();
  const Json json = Json::parse(to_json(m));
  CHECK(json["loss"].is_null());
  CHECK(json["grad_norm"].is_null());
}

TEST_CASE("validation lines are told apart by their kind") {
  const Json json = Json::parse(to_json(ValidationMetrics{.step = 5, .loss = 2.5, .tps = 100}));
  CHECK(json["kind"] == "validation");
  CHECK(json["loss"] == 2.5);
}

TEST_CASE("each line is in the file when write returns") {
  const test::TempDir folder;
  JsonlWriter writer(folder / "metrics.jsonl", 0);
  writer.write(at_step(1));
  CHECK(steps(folder / "metrics.jsonl") == std::vector<int64_t>{1});
  writer.write(ValidationMetrics{.step = 1});
  CHECK(steps(folder / "metrics.jsonl") == std::vector<int64_t>{1, 1});
}

TEST_CASE("resuming drops the steps that will come again") {
  const test::TempDir folder;
  const auto path = folder / "metrics.jsonl";
  {
    JsonlWriter writer(path, 0);
    for (int64_t step = 1; step <= 5; ++step) writer.write(at_step(step));
  }
  const std::string three_lines = test::read_file(path).substr(0, 3 * (to_json(at_step(1)).size() + 1));
  {
    JsonlWriter writer(path, 3);
    CHECK(test::read_file(path) == three_lines);
    writer.write(at_step(4));
  }
  CHECK(steps(path) == std::vector<int64_t>{1, 2, 3, 4});
  JsonlWriter(path, 10);
  CHECK(steps(path) == std::vector<int64_t>{1, 2, 3, 4});
  JsonlWriter(path, 0);
  CHECK(steps(path).empty());
}

TEST_CASE("a crash at any byte of the last line leaves a file that resumes") {
  const test::TempDir folder;
  const auto path = folder / "metrics.jsonl";
  const std::string first = to_json(at_step(1)) + "\n";
  const std::string second = to_json(at_step(2));
  for (size_t cut = 0; cut <= second.size(); ++cut) {
    CAPTURE(cut);
    test::write_file(path, first + second.substr(0, cut));
    JsonlWriter(path, 2).write(at_step(3));
    const bool whole = cut == second.size();  // only its line end was lost
    REQUIRE(steps(path) == (whole ? std::vector<int64_t>{1, 2, 3} : std::vector<int64_t>{1, 3}));
  }
}

TEST_CASE("damage in the middle goes, unknown objects stay") {
  const test::TempDir folder;
  const auto path = folder / "metrics.jsonl";
  const std::string step = to_json(at_step(1)) + "\n";
  test::write_file(path, step + std::string("\0\0\0\n", 4) + "\n[1]\n{\"note\":\"mine\"}\n");
  rewind_jsonl(path, 1);
  CHECK(test::read_file(path) == step + "{\"note\":\"mine\"}\n");
  CHECK_FALSE(std::filesystem::exists(path.string() + ".tmp"));
}

TEST_CASE("a file that cannot be written is reported") {
  CHECK_THROWS_AS(JsonlWriter("/dev/full", 0).write(at_step(1)), UserError);
}

}  // namespace
}  // namespace titan
