// `titan bench` and `titan plan --fit` from the outside.
#include <catch2/catch.hpp>
#include <csignal>
#include <fstream>
#include <sstream>

#include "tests/app/titan/run_titan.h"
#include "tests/support/temp_dir.h"

using namespace titan::test;
using Catch::Contains;

namespace {

/// `command` of the small recipe, which names no data unless the test says so.
std::vector<std::string> bench(const TempDir& folder, const std::vector<std::string>& more,
                               const std::string& command = "bench") {
  std::vector<std::string> arguments = small_run(folder.path());
  arguments[0] = command;
  arguments.emplace_back(
      "--debug.threads=1");  // threads that wait for each other are slow beside other tests
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

nlohmann::json read_json(const std::filesystem::path& path) {
  std::ifstream file(path);
  return nlohmann::json::parse(file);
}

std::string read_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

TEST_CASE("a bench measures what runs, reports what does not, and writes all formats") {
  const TempDir folder;
  const Run run = run_titan(
      bench(folder, {"--training.dataset_path=[]", "--sweep", "training.local_batch_size=1,2,3,1000000",
                     "--sweep=activation_checkpoint.mode=none,sometimes", "--steps=3", "--warmup=1",
                     "--training.global_batch_size=-1", "--csv=" + (folder / "b.csv").string(),
                     "--json=" + (folder / "b.json").string(), "--html=" + (folder / "b.html").string()}));
  INFO(run.err << run.out);
  REQUIRE(run.exit == 0);
  const nlohmann::json json = read_json(folder / "b.json");
  REQUIRE(json["trials"].size() == 8);
  int ok = 0;
  for (const auto& trial : json["trials"]) {
    const std::string batch = trial["values"]["training.local_batch_size"],
                      mode = trial["values"]["activation_checkpoint.mode"], status = trial["status"];
    INFO(trial.dump());
    if (mode == "sometimes") {
      CHECK(status == "invalid");
      CHECK_THAT(trial["message"].get<std::string>(), Contains("activation_checkpoint.mode"));
    } else if (batch == "1000000") {
      CHECK(status != "ok");
      CHECK(!trial["message"].get<std::string>().empty());
    } else {
      ++ok;
      REQUIRE(status == "ok");
      CHECK(trial["step_seconds"]["count"] == 3);
      const double median = trial["step_seconds"]["median"];
      CHECK(median > 0);
      CHECK(trial["step_seconds"]["min"] <= median);
      CHECK(trial["step_seconds"]["max"] >= median);
      CHECK(trial["tokens_per_second"].get<double>() == Approx(32 * std::stod(batch) / median));
      CHECK(trial["peak_resident_bytes"] > trial["planned_bytes"]);
      CHECK(trial["mfu_percent"].is_null());
      const double light = trial["speed_of_light_percent"];
      CHECK(light > 0);
      CHECK(light < 100);
    }
  }
  CHECK(ok == 3);
  CHECK_THAT(run.out, Contains("invalid") && Contains("tokens/s"));
  CHECK_THAT(read_text(folder / "b.csv"), Contains("sometimes"));
  CHECK_THAT(read_text(folder / "b.html"), Contains("<svg") && Contains("3 of 8"));
  CHECK(!std::filesystem::exists(folder / "out"));  // runs have folders of their own, and these are gone
}

TEST_CASE("a bench's planned memory is the plan's") {
  const TempDir folder;
  const auto both = [&](const char* command, std::vector<std::string> more) {
    for (const char* off : {"--checkpoint.enable=false", "--validation.enable=false"}) more.emplace_back(off);
    return run_titan(bench(folder, more, command));
  };
  const Run run =
      both("bench", {"--steps=1", "--warmup=0", "--repeat=2", "--json=" + (folder / "b.json").string()});
  INFO(run.err);
  REQUIRE(run.exit == 0);
  const auto trial = read_json(folder / "b.json")["trials"][0];
  CHECK(trial["step_seconds"]["count"] == 2);
  CHECK(trial["planned_bytes"] == nlohmann::json::parse(both("plan", {"--json"}).out)["arena_bytes"]);
}

TEST_CASE("a bench of which nothing runs fails; wrong usage is told before anything runs") {
  const TempDir folder;
  const Run none = run_titan(bench(folder, {"--sweep", "training.local_batch_size=0,-3", "--steps=1"}));
  INFO(none.err);
  CHECK(none.exit == 1);
  CHECK_THAT(none.out, Contains("invalid"));
  const std::vector<std::pair<std::vector<std::string>, const char*>> wrong{
      {{"--sweep", "training.steps=1,2"}, "use --steps"},
      {{"--sweep", "training.local_batch_sise=1,2"}, "did you mean training.local_batch_size"},
      {{"--sweep", "training.local_batch_size"}, "no values"},
      {{"--sweep", "model.dim=32", "--sweep", "model.dim=64"}, "given twice"},
      {{"--model.dim=x"}, "model.dim"},
      {{"--steps", "0"}, "expected an integer"},
      {{"--html", "/no/such/folder/x.html"}, "does not exist"}};
  for (const auto& [arguments, words] : wrong) {
    const Run run = run_titan(bench(folder, arguments));
    INFO(words << "\n" << run.err);
    CHECK(run.exit == 2);
    CHECK_THAT(run.err, Contains(words));
  }
  CHECK(run_titan({"bench"}).exit == 2);
}

TEST_CASE("a run that dies is one line of a bench") {
  const TempDir folder;
  // A learning rate that makes the loss infinite ends the run with status 1.
  const Run run = run_titan(bench(folder, {"--sweep", "optimizer.lr=1e-3,1e30", "--steps=8", "--warmup=1",
                                           "--json=" + (folder / "b.json").string()}));
  INFO(run.err << run.out);
  CHECK(run.exit == 0);
  const auto trials = read_json(folder / "b.json")["trials"];
  CHECK(trials[0]["status"] == "ok");
  CHECK(trials[1]["status"] == "failed");
  CHECK_THAT(trials[1]["message"].get<std::string>(), Contains("not both finite"));
}

TEST_CASE("a signal ends a bench, which tells what is done") {
  const TempDir folder;
  Running running(bench(folder, {"--sweep", "training.global_batch_size=4,20000", "--steps=20", "--warmup=0",
                                 "--json=" + (folder / "b.json").string()}));
  REQUIRE(running.wait_for("1/2 training.global_batch_size=4: step", 60));
  running.signal(SIGINT);
  const Run run = running.wait();
  INFO(run.err);
  CHECK(run.exit == 3);
  const auto json = read_json(folder / "b.json");
  REQUIRE(json["trials"].size() == 1);
  CHECK(json["trials"][0]["status"] == "ok");
  CHECK_THAT(json["notes"][0].get<std::string>(), Contains("1 of 2"));
}

TEST_CASE("bench ops times every operation of the step") {
  const TempDir folder;
  std::vector<std::string> arguments = bench(folder, {"--steps=3", "--json"});
  arguments.insert(arguments.begin() + 1, "ops");
  const Run run = run_titan(arguments);
  INFO(run.err);
  REQUIRE(run.exit == 0);
  const auto json = nlohmann::json::parse(run.out);
  const auto plan = nlohmann::json::parse(run_titan(bench(folder, {"--json"}, "plan")).out);
  std::int64_t nodes = 0;
  double seconds = 0, flops = 0;
  for (const auto& op : json["ops"]) {
    nodes += op["count"].get<std::int64_t>();
    seconds += op["seconds"].get<double>();
    flops += op["flops"].get<double>();
    CHECK(op["floor_seconds"].get<double>() > 0);
  }
  CHECK(nodes == plan["programs"]["train"]["nodes"]);
  CHECK(flops == Approx(plan["programs"]["train"]["flops"].get<double>()));
  CHECK(seconds > 0);
  CHECK(seconds < 2 * json["step_seconds"].get<double>());
  arguments.pop_back();
  arguments.emplace_back("--filter=adamw");
  const Run filtered = run_titan(arguments);
  CHECK_THAT(filtered.out, Contains("adamw") && !Contains("rms_norm") && Contains("of floor"));
}

TEST_CASE("plan --fit proposes overrides that fit") {
  const TempDir folder;
  const auto plan = [&](std::vector<std::string> more) {
    more.emplace_back("--training.global_batch_size=-1");
    return run_titan(bench(folder, more, "plan"));
  };
  const Run fitted = plan({"--fit=4MiB", "--json"});
  INFO(fitted.err << fitted.out);
  REQUIRE(fitted.exit == 0);
  const auto json = nlohmann::json::parse(fitted.out);
  const auto& best = json["candidates"][json["best"].get<std::size_t>()];
  std::vector<std::string> overrides = best["overrides"];
  overrides.emplace_back("--json");
  const auto planned = nlohmann::json::parse(plan(overrides).out);
  CHECK(planned["arena_bytes"] == best["bytes"]);
  CHECK(planned["arena_bytes"] <= 4 << 20);
  CHECK_THAT(plan({"--fit=4MiB"}).out,
             Contains("use --activation_checkpoint.mode=") && Contains("--training.local_batch_size="));
  CHECK(plan({"--fit=1KiB"}).exit == 1);
  CHECK(plan({"--fit=lots"}).exit == 2);
  CHECK(plan({"--fit=auto"}).exit == 0);
}
