#include "parallelism/planner/fit.h"

#include <charconv>
#include <cmath>
#include <functional>
#include <optional>

#include "engine/mesh/mesh.h"
#include "engine/profile/profile.h"
#include "engine/program/job.h"
#include "engine/recipe/recipe.h"
#include "kernels/base/error.h"
#include "kernels/cost/machine.h"
#include "parallelism/compile.h"

namespace titan {
namespace {

struct Mode {
  const char* mode;
  double budget;  ///< of memory_budget
};

constexpr Mode kModes[] = {
    {"none", 1}, {"memory_budget", 0.75}, {"memory_budget", 0.5}, {"memory_budget", 0.25}, {"selective", 0},
    {"full", 0}};

bool has_budget(const Mode& mode) { return std::string_view(mode.mode) == "memory_budget"; }

struct Measured {
  std::int64_t bytes = 0;
  double seconds = 0;
  double tokens = 0;
};

Measured measure(const Recipe& recipe, const Mesh& mesh, const Machine& machine) {
  const Job job = compile(recipe, mesh, machine);
  const StepShape shape = training_shape(recipe, mesh);
  // To a CPU both spaces are one memory.
  const std::int64_t host =
      machine.kind == DeviceKind::cpu ? job.placement.space(Space::host).arena_bytes : 0;
  return {.bytes = job.placement.space(Space::device).arena_bytes + host,
          .seconds = totals(job.program("train"), machine).seconds,
          .tokens = static_cast<double>(shape.tokens() * shape.micro_batches)};
}

/// Batches that may be tried, in order: all of them, or the divisors of a given global batch.
class Batches {
 public:
  Batches(const Recipe& recipe, const Mesh& mesh) {
    const std::int64_t global = recipe.training.global_batch_size, ranks = mesh.size(Axis::dp);
    if (global < 0) return;
    for (std::int64_t batch = 1; batch * ranks <= global; ++batch)
      if (global % (batch * ranks) == 0) divisors_.push_back(batch);
    if (divisors_.empty())
      throw UserError(fmt::format("training.global_batch_size {} is not a multiple of {} data-parallel ranks",
                                  global, ranks));
  }
  /// The most that `at` may be.
  std::int64_t count() const {
    constexpr std::int64_t kMost = std::int64_t{1} << 24;
    return divisors_.empty() ? kMost : static_cast<std::int64_t>(divisors_.size());
  }
  /// The `at`-th smallest, from 1.
  std::int64_t operator[](std::int64_t at) const {
    return divisors_.empty() ? at : divisors_[static_cast<std::size_t>(at - 1)];
  }

 private:
  std::vector<std::int64_t> divisors_;
};

/// The largest number in [0, most] for which `fits` holds; it holds for 0, and for all below one that fits.
std::int64_t largest(std::int64_t most, const std::function<bool(std::int64_t)>& fits) {
  std::int64_t good = 0, bad = 1;
  while (bad <= most && fits(bad)) {
    good = bad;
    bad *= 2;
  }
  bad = std::min(bad, most + 1);
  while (bad - good > 1) {
    const std::int64_t middle = good + (bad - good) / 2;
    (fits(middle) ? good : bad) = middle;
  }
  return good;
}

FitCandidate candidate(Recipe recipe, const Mode& mode, const Batches& batches, const Mesh& mesh,
                       const Machine& machine, std::int64_t bytes) {
  recipe.activation_checkpoint.mode = mode.mode;
  FitCandidate c{.name = mode.mode, .overrides = {fmt::format("--activation_checkpoint.mode={}", mode.mode)}};
  if (has_budget(mode)) {
    recipe.activation_checkpoint.memory_budget = mode.budget;
    c.name += fmt::format(" {}", mode.budget);
    c.overrides.push_back(fmt::format("--activation_checkpoint.memory_budget={}", mode.budget));
  }
  if (std::string_view(mode.mode) == "selective") {
    recipe.activation_checkpoint.selective_ac_option = "op";
    c.overrides.emplace_back("--activation_checkpoint.selective_ac_option=op");
  }
  std::optional<Measured> smallest;
  const auto at = [&](std::int64_t index) {
    recipe.training.local_batch_size = batches[index];
    return measure(recipe, mesh, machine);
  };
  smallest = at(1);  // what cannot be compiled even so is the recipe's fault, and told
  std::int64_t found = 0;
  Measured best = *smallest;
  found = largest(batches.count(), [&](std::int64_t index) {
    try {
      const Measured m = index == 1 ? *smallest : at(index);
      if (m.bytes > bytes) return false;
      best = m;
      return true;
    } catch (const UserError&) {
      return false;  // more tokens than a pass may have
    }
  });
  c.local_batch_size = found == 0 ? 0 : batches[found];
  c.bytes = best.bytes;
  c.step_seconds = best.seconds;
  c.tokens_per_second = best.tokens / best.seconds;
  c.overrides.push_back(
      fmt::format("--training.local_batch_size={}", batches[std::max<std::int64_t>(1, found)]));
  return c;
}

}  // namespace

std::vector<FitCandidate> fit(const Recipe& recipe, const Mesh& mesh, const Machine& machine,
                              std::int64_t bytes) {
  const Batches batches(recipe, mesh);
  std::vector<FitCandidate> candidates;
  for (const Mode& mode : kModes)
    candidates.push_back(candidate(recipe, mode, batches, mesh, machine, bytes));
  return candidates;
}

const FitCandidate* best_fit(std::span<const FitCandidate> candidates) {
  const FitCandidate* best = nullptr;
  for (const FitCandidate& c : candidates)
    if (c.fits() && (best == nullptr || c.tokens_per_second > best->tokens_per_second)) best = &c;
  return best;
}

std::int64_t parse_memory(const std::string& text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  std::string unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  while (unit.starts_with(' ')) unit.erase(0, 1);
  double factor = 0;
  constexpr std::string_view kPrefixes = "KMGT";
  if (unit.empty() || unit == "B") {
    factor = 1;
  } else if (const std::size_t power = kPrefixes.find(unit[0]); power != std::string_view::npos) {
    const std::string rest = unit.substr(1);
    if (rest.empty() || rest == "iB" || rest == "i")
      factor = std::pow(1024.0, static_cast<double>(power + 1));
    if (rest == "B") factor = std::pow(1000.0, static_cast<double>(power + 1));
  }
  const double bytes = number * factor;
  if (error != std::errc() || !(bytes >= 1) || bytes > 9e18)
    throw UsageError(
        fmt::format("{}: expected a size of memory such as 24GiB, 24GB, 512MiB or a number of bytes", text));
  return static_cast<std::int64_t>(bytes);
}

}  // namespace titan
