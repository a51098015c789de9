#include "app/trainer/checkpointer.h"

#include <spdlog/spdlog.h>

#include <ostream>

#include "app/trainer/state.h"
#include "engine/checkpoint/catalog.h"
#include "engine/checkpoint/load.h"
#include "engine/checkpoint/save.h"
#include "engine/metrics/clock.h"
#include "engine/recipe/recipe.h"
#include "kernels/base/error.h"

namespace titan {
namespace {

std::vector<std::string> parameter_names(std::span<const WantedTensor> wanted) {
  std::vector<std::string> names;
  for (const WantedTensor& w : wanted)
    if (w.kind == StateKind::parameter) names.push_back(w.piece.parameter);
  return names;
}

void report_differences(const Recipe& recipe, const RunState& old, const std::string& data_identity) {
  for (const Difference& d : differences(parse_recipe(old.recipe, "the checkpoint's recipe"), recipe))
    spdlog::warn("The recipe has changed since the checkpoint: {} was {}, is {}", d.key, d.old_value,
                 d.new_value);
  if (old.data != data_identity)
    spdlog::warn("The training data or the tokenizer is not the checkpoint's; samples go on at {}",
                 old.samples_consumed);
}

}  // namespace

Checkpointer::Checkpointer(const Recipe& recipe)
    : recipe_(recipe), folder_(std::filesystem::path(recipe.job.dump_folder) / recipe.checkpoint.folder) {}

void Checkpointer::report(std::ostream& out) const {
  if (!recipe_.checkpoint.enable) {
    out << "checkpoints: off\n";
    return;
  }
  const std::optional<CheckpointEntry> latest = latest_checkpoint(folder_);
  out << "checkpoints: " << folder_.string() << ", "
      << (latest ? fmt::format("would resume from step {}", latest->step) : "none to resume from") << "\n";
  if (!latest) return;
  for (const Difference& d :
       differences(parse_recipe(read_manifest(latest->path).run.recipe, "the checkpoint's recipe"), recipe_))
    out << fmt::format("  changed since: {} was {}, is {}\n", d.key, d.old_value, d.new_value);
}

std::optional<RunStart> Checkpointer::restore(const Job& job, const Executor& executor, const Recipe& recipe,
                                              const std::string& data_identity) {
  const Recipe::Checkpoint& c = recipe.checkpoint;
  if (!c.enable) return std::nullopt;
  spdlog::info("Checkpointing active. Checkpoints will be loaded from and saved to {}", folder_.string());
  if (!c.load_only) remove_leftovers(folder_);
  const std::vector<WantedTensor> wanted = wanted_state(job, executor);
  LoadOptions options{.parts = parts_without(c.exclude_from_loading),
                      .model_parameters = parameter_names(wanted)};
  const double begin = steady_seconds();
  const std::optional<Restored> restored =
      restore_checkpoint(folder_, c.load_step, wanted, coordinator_, options);
  if (!restored) return std::nullopt;
  if (c.initial_load_path)
    spdlog::warn("checkpoint.initial_load_path is ignored: {} has checkpoints of this run", folder_.string());
  spdlog::info("Finished loading the checkpoint {} (step {}) in {:.2f} seconds", restored->path.string(),
               restored->manifest.run.step, steady_seconds() - begin);
  fresh_ = false;
  RunStart start{.state = restored->manifest.run};
  report_differences(recipe, start.state, data_identity);
  if (!options.parts.dataloader) start.state.samples_consumed = 0;
  if (!options.parts.train_state) start.state.step = 0;
  if (!options.parts.lr_scheduler) start.schedule_step = start.state.step;
  if (!options.parts.optimizer) start.optimizer_step = start.state.step;
  return start;
}

void Checkpointer::load_initial_weights(const Job& job, const Executor& executor, const Recipe& recipe,
                                        std::uint64_t seed) {
  const Recipe::Checkpoint& c = recipe.checkpoint;
  if (!c.enable || !c.initial_load_path) {
    spdlog::info("Weights: initialized from seed {}", seed);
    return;
  }
  std::vector<WantedTensor> wanted = wanted_state(job, executor);
  if (c.initial_load_model_only)
    std::erase_if(wanted, [](const WantedTensor& w) { return w.kind != StateKind::parameter; });
  load_checkpoint(*c.initial_load_path, wanted, {.parts = {}, .model_parameters = parameter_names(wanted)});
  fresh_ = false;
  spdlog::info("Weights: loaded from {} (checkpoint.initial_load_path){}", *c.initial_load_path,
               c.initial_load_model_only ? "" : ", with optimizer state");
}

bool Checkpointer::due(std::int64_t step, bool last) const {
  const Recipe::Checkpoint& c = recipe_.checkpoint;
  if (!c.enable || c.load_only) return false;
  return last || step % c.interval == 0 || (step == 1 && c.enable_first_step_checkpoint);
}

void Checkpointer::after_step(const Job& job, const Executor& executor, const RunState& state, bool last,
                              bool stopping) {
  if (stopping && !recipe_.checkpoint.enable)
    spdlog::warn("checkpoint.enable is false: the run's state is not saved");
  const bool stop_save = stopping && recipe_.checkpoint.enable && !recipe_.checkpoint.load_only;
  if (!due(state.step, last) && !stop_save) return;
  try {
    save(job, executor, state, last && recipe_.checkpoint.last_save_model_only);
  } catch (const UserError& error) {
    if (last || stopping) throw;
    spdlog::error(
        "The checkpoint of step {} was not saved: {}. Training goes on; the last good checkpoint is "
        "untouched",
        state.step, error.what());
  }
}

void Checkpointer::save(const Job& job, const Executor& executor, const RunState& state, bool model_only) {
  Snapshot snapshot{.run = state, .tensors = stored_state(job, executor), .memory = nullptr};
  SaveOptions options;
  options.model_only = model_only;
  if (model_only) options.type = export_type(recipe_.checkpoint.export_dtype);
  save_checkpoint(folder_, snapshot, coordinator_, options);
  keep_latest(folder_, recipe_.checkpoint.keep_latest_k);
}

}  // namespace titan
