#include "parallelism/planner/fit.h"

#include <catch2/catch.hpp>

#include "engine/mesh/mesh.h"
#include "engine/profile/profile.h"
#include "engine/recipe/recipe.h"
#include "kernels/base/error.h"
#include "kernels/cost/machine.h"
#include "parallelism/compile.h"

using namespace titan;

namespace {

const Machine kMachine = cpu_machine("avx512", 2, 3e11, 6e11, 2e10, std::int64_t{64} << 30);

Recipe debugmodel(const std::vector<std::string>& overrides = {}) {
  std::vector<std::string> all{"--model.flavor=debugmodel", "--training.seq_len=256"};
  all.insert(all.end(), overrides.begin(), overrides.end());
  return parse_recipe("", "test", all);
}

std::int64_t bytes_of(const Recipe& recipe) {
  const Placement& placement = compile(recipe, Mesh(), kMachine).placement;
  return placement.space(Space::device).arena_bytes + placement.space(Space::host).arena_bytes;
}

/// A candidate's overrides, with another batch.
Recipe with_batch(const FitCandidate& c, std::vector<std::string> overrides, std::int64_t batch) {
  overrides.insert(overrides.end(), c.overrides.begin(), c.overrides.end());
  overrides.push_back("--training.local_batch_size=" + std::to_string(batch));
  return debugmodel(overrides);
}

}  // namespace

TEST_CASE("fit finds the largest batch that trying every one finds, in every mode") {
  constexpr std::int64_t kMost = 12;
  const std::int64_t limit =
      bytes_of(debugmodel({"--training.local_batch_size=6", "--activation_checkpoint.mode=none"}));
  const auto candidates = fit(debugmodel(), Mesh(), kMachine, limit);
  REQUIRE(candidates.size() == 6);
  const FitCandidate* fastest = nullptr;
  bool below_most = false;
  for (const FitCandidate& c : candidates) {
    INFO(c.name);
    std::int64_t largest = 0;
    for (std::int64_t batch = 1; batch <= kMost; ++batch)
      if (bytes_of(with_batch(c, {}, batch)) <= limit) largest = batch;
    if (largest < kMost) {
      below_most = true;
      CHECK(c.local_batch_size == largest);
    } else {
      CHECK(c.local_batch_size >= kMost);
    }
    CHECK(c.bytes <= limit);
    CHECK(c.bytes == bytes_of(with_batch(c, {}, c.local_batch_size)));
    CHECK(bytes_of(with_batch(c, {}, c.local_batch_size + 1)) > limit);
    const Recipe recipe = with_batch(c, {}, c.local_batch_size);
    const ProgramTotals t = totals(compile(recipe, Mesh(), kMachine).program("train"), kMachine);
    CHECK(c.step_seconds == Approx(t.seconds));
    CHECK(c.tokens_per_second == Approx(256.0 * static_cast<double>(c.local_batch_size) / t.seconds));
    if (fastest == nullptr || c.tokens_per_second > fastest->tokens_per_second) fastest = &c;
  }
  CHECK(below_most);
  CHECK(best_fit(candidates) == fastest);
  CHECK(candidates.front().name == "none");
  CHECK(candidates.front().local_batch_size == 6);
  CHECK(candidates.back().name == "full");
  CHECK(candidates.back().local_batch_size > 6);
}

TEST_CASE("with a global batch only its divisors are proposed") {
  const std::vector<std::string> global{"--training.global_batch_size=12", "--training.local_batch_size=1"};
  const std::int64_t limit =
      bytes_of(debugmodel({"--training.global_batch_size=12", "--training.local_batch_size=4",
                           "--activation_checkpoint.mode=none"}));
  const auto candidates = fit(debugmodel(global), Mesh(), kMachine, limit);
  CHECK(candidates.front().local_batch_size == 4);
  for (const FitCandidate& c : candidates) CHECK(12 % c.local_batch_size == 0);
  // More than everything needs: the whole batch at once, without recomputation.
  const auto roomy = fit(debugmodel(global), Mesh(), kMachine, std::int64_t{1} << 40);
  for (const FitCandidate& c : roomy) CHECK(c.local_batch_size == 12);
  REQUIRE(best_fit(roomy) != nullptr);
  CHECK(best_fit(roomy)->name == "none");
}

TEST_CASE("what fits nowhere is said, with what it would need") {
  const auto candidates = fit(debugmodel(), Mesh(), kMachine, 1000);
  CHECK(best_fit(candidates) == nullptr);
  for (const FitCandidate& c : candidates) {
    CHECK(!c.fits());
    CHECK(c.bytes == bytes_of(with_batch(c, {}, 1)));
  }
}

TEST_CASE("sizes of memory") {
  CHECK(parse_memory("24GiB") == std::int64_t{24} << 30);
  CHECK(parse_memory("1.5 GiB") == std::int64_t{3} << 29);
  CHECK(parse_memory("24GB") == 24'000'000'000);
  CHECK(parse_memory("512M") == std::int64_t{512} << 20);
  CHECK(parse_memory("1000") == 1000);
  CHECK(parse_memory("7B") == 7);
  for (const char* text : {"", "GiB", "0", "-1GiB", "5 apples", "1e30", "nan", "inf", "3GiBx", "12Q"}) {
    INFO(text);
    CHECK_THROWS_AS(parse_memory(text), UsageError);
  }
}
