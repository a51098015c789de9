// When a run saves, what it starts from, and what it says about both.
#pragma once

#include <cstdint>
#include <filesystem>
#include <iosfwd>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/checkpoint/coordinator.h"
#include "engine/checkpoint/load.h"
#include "engine/checkpoint/manifest.h"

namespace titan {

class Executor;
struct Job;
struct Recipe;

/// Where a run begins: the restored state, and the steps at which what was excluded from loading starts over.
struct RunStart {
  RunState state;
  std::int64_t schedule_step = 0;   ///< step 0 of the learning-rate schedule
  std::int64_t optimizer_step = 0;  ///< step 0 of AdamW's bias corrections
};

class Checkpointer {
 public:
  explicit Checkpointer(const Recipe& recipe);

  /// Where a run of `job` would start and save, for --dry-run. Refuses what `restore` and
  /// `load_initial_weights` would.
  void report(const Job& job, std::ostream& out);

  /// Continues from the run's own checkpoints if there are any, and prints how the recipe has changed since.
  std::optional<RunStart> restore(const Job& job, const Executor& executor, const Recipe& recipe,
                                  const std::string& data_identity);
  /// checkpoint.initial_load_path over fresh weights, and the line that says which weights the run has.
  void load_initial_weights(const Job& job, const Executor& executor, const Recipe& recipe,
                            std::uint64_t seed);
  /// Whether the weights are freshly initialized.
  bool fresh() const { return fresh_; }

  /// Saves when the recipe says so, at the last step, and when a signal stops the run. A failed save is an
  /// error at the end of the run and a warning before: training goes on with the last good checkpoint.
  void after_step(const Job& job, const Executor& executor, const RunState& state, bool last, bool stopping);

 private:
  /// Both refuse another model; with `check_only` they read no tensors.
  std::optional<Restored> restore_from_folder(std::span<const WantedTensor> wanted, bool check_only);
  void load_from_initial_path(std::vector<WantedTensor> wanted, bool check_only);
  void warn_of_later_steps(std::int64_t step) const;
  bool due(std::int64_t step, bool last) const;
  void save(const Job& job, const Executor& executor, const RunState& state, bool model_only);

  const Recipe& recipe_;
  std::filesystem::path folder_;
  SoloCoordinator coordinator_;
  bool fresh_ = true;
};

}  // namespace titan
