#include "engine/checkpoint/agreement.h"
#include "engine/checkpoint/catalog.h"
#include "engine/checkpoint/load.h"
#include "engine/io/file.h"
#include "kernels/base/error.h"

#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <sstream>

namespace titan {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void throw_no_step(const fs::path& folder, int64_t load_step) {
  std::vector<int64_t> steps;
  for (const CheckpointEntry& entry : find_checkpoints(folder))
    if (entry.status == CheckpointStatus::complete) steps.push_back(entry.step);
  throw UserError(fmt::format("checkpoint.load_step = {}: {} has no such checkpoint; it has steps [{}]",
                              load_step, folder.string(), fmt::join(steps, ", ")));
}

[[noreturn]] void throw_all_damaged(const fs::path& folder, const std::string& last_problem) {
  throw UserError(fmt::format("no checkpoint in {} can be loaded ({}); move them away to start over",
                              folder.string(), last_problem));
}

/// What may be loaded, best first, one path a line.
std::string candidates(const fs::path& folder, int64_t load_step) {
  if (load_step >= 0) {
    const fs::path path = checkpoint_path(folder, load_step);
    if (!path_exists(path)) throw_no_step(folder, load_step);
    return path.string() + "\n";
  }
  std::string newest_first, last_problem;
  for (const CheckpointEntry& entry : find_checkpoints(folder)) {
    if (entry.status == CheckpointStatus::complete) newest_first = entry.path.string() + "\n" + newest_first;
    if (entry.status == CheckpointStatus::damaged) spdlog::warn("skipping {}", last_problem = entry.problem);
    if (entry.status == CheckpointStatus::incomplete)
      spdlog::warn("skipping {}: its save did not finish", entry.path.string());
  }
  if (newest_first.empty() && !last_problem.empty()) throw_all_damaged(folder, last_problem);
  return newest_first;
}

std::vector<fs::path> agree_on_candidates(const fs::path& folder, int64_t load_step, Coordinator& coordinator,
                                          std::chrono::seconds timeout) {
  const bool first = coordinator.rank() == 0;
  const auto found =
      run_on_all(coordinator, timeout, [&] { return first ? candidates(folder, load_step) : std::string(); });
  std::istringstream lines(coordinator.broadcast(first ? found.front() : "", timeout));
  std::vector<fs::path> paths;
  for (std::string line; std::getline(lines, line);) paths.emplace_back(line);
  return paths;
}

}  // namespace

std::optional<Restored> restore_checkpoint(const fs::path& folder, int64_t load_step,
                                           std::span<const WantedTensor> wanted, Coordinator& coordinator,
                                           const LoadOptions& options) {
  const auto paths = agree_on_candidates(folder, load_step, coordinator, options.timeout);
  std::string last_problem;
  for (const fs::path& path : paths) {
    try {
      Restored restored{path, {}};
      run_on_all(coordinator, options.timeout, [&] {
        restored.manifest = load_checkpoint(path, wanted, options);
        return std::string();
      });
      return restored;
    } catch (const DamagedCheckpoint& error) {
      if (load_step >= 0) throw;
      last_problem = error.what();
      if (coordinator.rank() == 0) spdlog::warn("skipping {}: {}", path.string(), last_problem);
    }
  }
  if (!paths.empty()) throw_all_damaged(folder, last_problem);
  return std::nullopt;
}

}  // namespace titan
