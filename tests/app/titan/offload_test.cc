// Offloaded runs are the same runs: losses, checkpoints, and one goes on where another stopped.
#include <catch2/catch.hpp>
#include <fstream>

#include "engine/checkpoint/catalog.h"
#include "tests/app/titan/run_titan.h"
#include "tests/support/temp_dir.h"

using namespace titan;
using namespace titan::test;
using Catch::Contains;

namespace {

using Overrides = std::vector<std::string>;

const Overrides kState{"--training.enable_cpu_offload"};
const Overrides kAll{"--training.enable_cpu_offload",    "--activation_offload.enable",
                     "--activation_offload.min_bytes=0", "--parallelism.fsdp_reshard_after_forward=always",
                     "--checkpoint.async_mode=async",    "--metrics.log_parameter_norms"};

Overrides with(Overrides a, const Overrides& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

Run train(const TempDir& folder, const Overrides& overrides) {
  Run run = run_titan(small_run(folder.path(), with(overrides, {"--debug.threads=1"})));
  INFO(run.err);
  REQUIRE(run.exit == 0);
  return run;
}

std::filesystem::path step(const TempDir& folder, std::int64_t number) {
  return checkpoint_path(folder / "out/checkpoint", number);
}

std::string tensors(const TempDir& folder, std::int64_t number) {
  std::ifstream in(step(folder, number) / "rank-0.safetensors", std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace

TEST_CASE("an offloaded run has the losses and checkpoints of one that is not, and each resumes the other") {
  const Overrides offload = GENERATE(kState, kAll);
  const std::string batch = GENERATE("--training.global_batch_size=2", "--training.global_batch_size=4");
  const TempDir plain, offloaded;
  train(plain, {batch});
  train(offloaded, with(offload, {batch}));
  CHECK(losses(plain.path()).size() == 12);
  CHECK(losses(plain.path()) == losses(offloaded.path()));
  for (const std::int64_t number : {5, 10, 12}) {
    CHECK(!tensors(plain, number).empty());
    CHECK(tensors(plain, number) == tensors(offloaded, number));
  }
  const std::string last = tensors(plain, 12);
  for (const auto& [folder, options] : {std::pair{&plain, &offload}, {&offloaded, nullptr}}) {
    for (const std::int64_t number : {10, 12}) std::filesystem::remove_all(step(*folder, number));
    const Run resumed = train(
        *folder, with(options != nullptr ? *options : Overrides{}, {batch, "--checkpoint.load_step=5"}));
    CHECK_THAT(resumed.err, Contains("Training starts at step 6"));
    CHECK(tensors(*folder, 12) == last);
  }
  CHECK(losses(plain.path()) == losses(offloaded.path()));
}

TEST_CASE("predicted device and host memory is used memory, to the byte") {
  const Overrides offload = GENERATE(kState, kAll);
  const TempDir folder;
  auto arguments = small_run(folder.path(), with(offload, {"--training.steps=2"}));
  const Run run = run_titan(arguments);
  INFO(run.err);
  REQUIRE(run.exit == 0);
  arguments[0] = "plan";
  CHECK_THAT(run_titan(arguments).out, Contains("host memory") && Contains("host transient"));
  arguments.emplace_back("--json");
  const auto planned = nlohmann::json::parse(run_titan(arguments).out);
  const std::int64_t device = planned["arena_bytes"], host = planned["host_arena_bytes"];
  CHECK(host > 0);
  CHECK(planned["persistent_by_role"].count("parameter") == 0);
  CHECK(planned["host_persistent_by_role"]["parameter"] > 0);
  CHECK_THAT(run.err, Contains("one arena of " + std::to_string(device) + " B") &&
                          Contains("and " + std::to_string(host) + " B (0.00 GiB) of host memory"));
}

TEST_CASE("a run that needs more than there is names the keys of offload where they cost memory") {
  const TempDir folder;
  const Overrides large{"--model.dim=65536", "--model.n_layers=8", "--model.n_heads=64",
                        "--model.ffn_dim=262144", "--dry-run"};
  CHECK_THAT(run_titan(small_run(folder.path(), large)).err,
             Contains("activation_checkpoint.mode") && !Contains("enable_cpu_offload"));
  CHECK_THAT(run_titan(small_run(folder.path(), with(kAll, large))).err,
             Contains("training.enable_cpu_offload = false and activation_offload.enable = false") &&
                 Contains("checkpoint.async_mode"));
}
