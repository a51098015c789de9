// The executable with the CUDA backend: without a driver it says so, and with the library that is built for
// the host it trains, saves and resumes as with a GPU.
#include <catch2/catch.hpp>
#include <chrono>
#include <fstream>

#include "tests/app/titan/run_titan.h"
#include "tests/support/temp_dir.h"

using namespace titan;
using namespace titan::test;
using Catch::Contains;

namespace {

const std::vector<std::string> kOnHost{"TITAN_CUDA_LIBRARY=" TITAN_CUDA_ON_HOST},
    kNone{"TITAN_CUDA_LIBRARY="};

Run train(const TempDir& folder, const std::vector<std::string>& environment,
          std::vector<std::string> overrides = {}) {
  overrides.emplace_back("--debug.threads=1");
  return run_titan(small_run(folder.path(), overrides), environment);
}

void check_close(const std::map<std::int64_t, double>& got, const std::map<std::int64_t, double>& want,
                 double relative) {
  REQUIRE(got.size() == want.size());
  for (const auto& [step, loss] : want) {
    INFO("step " << step);
    CHECK(got.at(step) == Approx(loss).epsilon(relative));
  }
}

}  // namespace

TEST_CASE("titan trains on a GPU as on the CPU, and each resumes the other's checkpoint") {
  const TempDir cpu, cuda;
  const std::vector<std::string> options{"--training.mixed_precision_param=float32",
                                         "--checkpoint.async_mode=async"};
  REQUIRE(train(cpu, kNone, options).exit == 0);
  const Run first = train(cuda, kOnHost, options);
  INFO(first.err);
  REQUIRE(first.exit == 0);
  CHECK_THAT(first.err, Contains("CUDA on the host"));
  check_close(losses(cuda.path()), losses(cpu.path()), 1e-5);
  const auto whole = losses(cuda.path());
  // The other device goes on from step 5, here and there.
  std::vector<std::string> resume = options;
  resume.emplace_back("--checkpoint.load_step=5");
  for (const auto& [folder, environment] : {std::pair{&cuda, &kNone}, {&cpu, &kOnHost}}) {
    for (const int step : {10, 12})
      std::filesystem::remove_all(folder->path() / "out/checkpoint" / ("step-" + std::to_string(step)));
    const Run resumed = train(*folder, *environment, resume);
    INFO(resumed.err);
    REQUIRE(resumed.exit == 0);
    CHECK_THAT(resumed.err, Contains("Training starts at step 6"));
    check_close(losses(folder->path()), whole, 1e-5);
  }
}

TEST_CASE("on a GPU a resumed run has the bits of one that was not interrupted, with offload too") {
  const std::string offload = GENERATE("false", "true");
  const std::vector<std::string> options{"--training.enable_cpu_offload=" + offload,
                                         "--activation_offload.enable=" + offload,
                                         "--activation_offload.min_bytes=0"};
  const TempDir folder;
  REQUIRE(train(folder, kOnHost, options).exit == 0);
  const auto whole = losses(folder.path());
  CHECK(whole.size() == 12);
  for (const int step : {10, 12})
    std::filesystem::remove_all(folder.path() / "out/checkpoint" / ("step-" + std::to_string(step)));
  REQUIRE(train(folder, kOnHost, options).exit == 0);
  CHECK(losses(folder.path()) == whole);
}

TEST_CASE("measured algorithms of matrix products are kept with the run, and resuming takes them") {
  const TempDir folder;
  const std::vector<std::string> options{"--cuda.measure_gemms"};
  const std::filesystem::path table = folder.path() / "out/gemm_table.txt";
  REQUIRE(train(folder, kOnHost, options).exit == 0);
  const auto whole = losses(folder.path());
  const auto written = std::filesystem::last_write_time(table);
  for (const int step : {10, 12})
    std::filesystem::remove_all(folder.path() / "out/checkpoint" / ("step-" + std::to_string(step)));
  REQUIRE(train(folder, kOnHost, options).exit == 0);
  CHECK(losses(folder.path()) == whole);
  CHECK(std::filesystem::last_write_time(table) == written);
  std::ofstream(table) << "no table";
  std::filesystem::remove_all(folder.path() / "out/checkpoint");
  const Run broken = train(folder, kOnHost, options);
  CHECK(broken.exit == 1);
  CHECK_THAT(broken.err, Contains("gemm_table.txt") && Contains("cuda.measure_gemms = false"));
}

TEST_CASE("the doctor says why there is no CUDA, and what there is") {
  const auto start = std::chrono::steady_clock::now();
  const Run none = run_titan({"doctor"}, kNone);
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(2));
  CHECK(none.exit == 0);
  CHECK_THAT(none.out, Contains("cuda  "));
  const Run there = run_titan({"doctor"}, kOnHost);
  CHECK_THAT(there.out, Contains("device: CUDA on the host, compute capability 9.0"));
  const Run broken = run_titan({"doctor"}, {"TITAN_CUDA_LIBRARY=/dev/null"});
  CHECK(broken.exit == 0);
  CHECK_THAT(broken.out, Contains("cannot load /dev/null"));
}

TEST_CASE("a GPU that is asked for and not there is an error with its reason") {
  const TempDir folder;
  const Run run = train(folder, {"TITAN_CUDA_LIBRARY=/dev/null"}, {"--debug.device=cuda"});
  CHECK(run.exit == 1);
  CHECK_THAT(run.err,
             Contains("no GPU can be used: cannot load /dev/null") && Contains("debug.device = \"cpu\""));
  CHECK(train(folder, {"TITAN_CUDA_LIBRARY=/dev/null"}).exit == 0);  // auto: the CPU
}
