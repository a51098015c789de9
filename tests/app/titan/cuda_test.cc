// The executable with the CUDA backend: without a driver it says so, and with a library it trains, saves and
// resumes. [cuda] runs with the library that is built for the host, or the one that TITAN_TEST_CUDA_LIBRARY
// names: on a GPU libtitan_cuda.so.
#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdlib>
#include <fstream>

#include "tests/app/titan/run_titan.h"
#include "tests/support/temp_dir.h"

using namespace titan;
using namespace titan::test;
using Catch::Contains;

namespace {

std::string cuda_library() {
  const char* asked = std::getenv("TITAN_TEST_CUDA_LIBRARY");
  return asked != nullptr ? asked : TITAN_CUDA_ON_HOST;
}

const std::vector<std::string> kOnHost{"TITAN_CUDA_LIBRARY=" TITAN_CUDA_ON_HOST},
    kCuda{"TITAN_CUDA_LIBRARY=" + cuda_library()}, kCpu{"TITAN_CUDA_LIBRARY=/dev/null"},
    kNone{"TITAN_CUDA_LIBRARY="};

Run train(const TempDir& folder, const std::vector<std::string>& environment,
          std::vector<std::string> overrides = {}) {
  overrides.emplace_back("--debug.threads=1");
  if (&environment == &kCuda) overrides.emplace_back("--debug.device=cuda");
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

TEST_CASE("titan trains on a GPU as on the CPU, and each resumes the other's checkpoint", "[cuda]") {
  const TempDir cpu, cuda;
  const std::vector<std::string> options{"--training.mixed_precision_param=float32",
                                         "--checkpoint.async_mode=async"};
  REQUIRE(train(cpu, kCpu, options).exit == 0);
  const Run first = train(cuda, kCuda, options);
  INFO(first.err);
  REQUIRE(first.exit == 0);
  CHECK_THAT(first.err, Contains("Memory beside the arena: "));
  check_close(losses(cuda.path()), losses(cpu.path()), 1e-5);
  const auto whole = losses(cuda.path());
  // The other device goes on from step 5, here and there.
  std::vector<std::string> resume = options;
  resume.emplace_back("--checkpoint.load_step=5");
  for (const auto& [folder, environment] : {std::pair{&cuda, &kCpu}, {&cpu, &kCuda}}) {
    for (const int step : {10, 12})
      std::filesystem::remove_all(folder->path() / "out/checkpoint" / ("step-" + std::to_string(step)));
    const Run resumed = train(*folder, *environment, resume);
    INFO(resumed.err);
    REQUIRE(resumed.exit == 0);
    CHECK_THAT(resumed.err, Contains("Training starts at step 6"));
    check_close(losses(folder->path()), whole, 1e-5);
  }
}

TEST_CASE("on a GPU a resumed run has the bits of one that was not interrupted, with offload too", "[cuda]") {
  const std::string offload = GENERATE("false", "true");
  const std::vector<std::string> options{"--training.enable_cpu_offload=" + offload,
                                         "--activation_offload.enable=" + offload,
                                         "--activation_offload.min_bytes=0"};
  const TempDir folder;
  REQUIRE(train(folder, kCuda, options).exit == 0);
  const auto whole = losses(folder.path());
  CHECK(whole.size() == 12);
  for (const int step : {10, 12})
    std::filesystem::remove_all(folder.path() / "out/checkpoint" / ("step-" + std::to_string(step)));
  REQUIRE(train(folder, kCuda, options).exit == 0);
  CHECK(losses(folder.path()) == whole);
}

TEST_CASE("measured algorithms of matrix products are kept with the run, and resuming takes them", "[cuda]") {
  const TempDir folder;
  const std::vector<std::string> options{"--cuda.measure_gemms"};
  const std::filesystem::path table = folder.path() / "out/gemm_table.txt";
  REQUIRE(train(folder, kCuda, options).exit == 0);
  const auto whole = losses(folder.path());
  const auto written = std::filesystem::last_write_time(table);
  for (const int step : {10, 12})
    std::filesystem::remove_all(folder.path() / "out/checkpoint" / ("step-" + std::to_string(step)));
  REQUIRE(train(folder, kCuda, options).exit == 0);
  CHECK(losses(folder.path()) == whole);
  CHECK(std::filesystem::last_write_time(table) == written);
  std::ofstream(table) << "no table";
  std::filesystem::remove_all(folder.path() / "out/checkpoint");
  const Run broken = train(folder, kCuda, options);
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
  CHECK_THAT(there.out,
             Contains("attention: kernels of mma.sync; those of TMA and wgmma wait to be verified"));
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

TEST_CASE("with a CUDA library built in, titan starts at once where there is no driver") {
  for (const char* command : {"--version", "doctor"}) {
    INFO(command);
    double fastest = 1e9;  // of several: this machine may have other work
    for (int i = 0; i < 5; ++i) {
      const auto start = std::chrono::steady_clock::now();
      CHECK(run_titan({command}, kNone).exit == 0);
      fastest =
          std::min(fastest, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
    CHECK(fastest < 0.3);
  }
}
