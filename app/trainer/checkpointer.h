// When a run saves, what it starts from, and what it says about both.
#pragma once

#include <cstdint>
#include <filesystem>
#include <iosfwd>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/checkpoint/background_save.h"
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
  /// `hook` sees every disk operation of the saves.
  explicit Checkpointer(const Recipe& recipe, DiskHook hook = {});

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

  /// Before each step: whether it is to run "train_staging", which copies the state that a save in the
  /// background will write. Where the last such save still reads its copy, waits for it, with a warning.
  bool stages_next_step();
  /// After a step that has run "train_staging", finite or not: saves what it copied, which is the state
  /// before it, in the background. `held_seconds`: how long the optimizer waited for the copies. The
  /// executor's memory must outlive this object.
  void save_staged(const Job& job, const Executor& executor, double held_seconds);

  /// Saves when the recipe says so, at the last step, and when a signal stops the run. These last two are
  /// saved before this returns; others too, or, in the background, once the next step has copied the state. A
  /// failed save is an error at the end of the run and a logged one before: training goes on with the last
  /// good checkpoint. What is saved already is not saved again.
  void after_step(const Job& job, const Executor& executor, const RunState& state, bool last, bool stopping);

 private:
  /// Both refuse another model; with `check_only` they read no tensors.
  std::optional<Restored> restore_from_folder(std::span<const WantedTensor> wanted, bool check_only);
  void load_from_initial_path(std::vector<WantedTensor> wanted, bool check_only);
  /// checkpoint.initial_load_path, or where the weights of checkpoint.initial_load_in_hf are.
  std::optional<std::string> initial_path() const;
  void export_saved(const std::filesystem::path& checkpoint, StoredType type) const;
  /// Throws if the folder has steps after the one that the run would start at, by the recipe: the next
  /// restart would take those for its own.
  void refuse_later_steps() const;
  bool due(std::int64_t step, bool last) const;
  SaveResult save(const Snapshot& snapshot, SaveOptions options);
  std::optional<SaveResult> end_background_save();

  const Recipe& recipe_;
  DiskHook hook_;
  std::filesystem::path folder_;
  SoloCoordinator coordinator_;
  bool fresh_ = true;
  std::optional<RunState> requested_;  ///< that the next step is to stage
  double waited_seconds_ = 0;          ///< before the step that stages
  std::int64_t saved_step_ = -1;       ///< by this process, directly
  BackgroundSave background_;          ///< uses all of the above
};

}  // namespace titan
