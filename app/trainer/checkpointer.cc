#include "app/trainer/checkpointer.h"

#include <fmt/ranges.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ostream>
#include <utility>

#include "app/trainer/convert.h"
#include "app/trainer/state.h"
#include "engine/checkpoint/catalog.h"
#include "engine/checkpoint/load.h"
#include "engine/checkpoint/save.h"
#include "engine/huggingface/export.h"
#include "engine/huggingface/import.h"
#include "engine/metrics/clock.h"
#include "engine/model/config.h"
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

Recipe recipe_of(const RunState& run) { return parse_recipe(run.recipe, "the checkpoint's recipe"); }

/// The stored shapes do not tell how rows are grouped into heads.
void check_heads(const std::filesystem::path& checkpoint, const RunState& run, const Recipe& recipe) {
  const ModelConfig was = model_config(recipe_of(run)), is = model_config(recipe);
  if (was.n_heads == is.n_heads && was.n_kv_heads == is.n_kv_heads) return;
  throw UserError(fmt::format(
      "{} holds another model: it has {} query and {} key-value heads, the recipe's model has {} and {}; set "
      "model.n_heads and model.n_kv_heads as they were",
      checkpoint.string(), was.n_heads, was.n_kv_heads, is.n_heads, is.n_kv_heads));
}

[[noreturn]] void throw_cannot_save(const std::filesystem::path& folder, int error) {
  throw UserError(
      fmt::format("checkpoints cannot be saved in {}: {}; set another job.dump_folder or "
                  "checkpoint.folder, or checkpoint.load_only",
                  folder.string(), std::strerror(error)));
}

/// Throws if nothing can be saved in `folder` or, where it is still to be made, next to it.
void check_can_save(const std::filesystem::path& folder) {
  std::error_code ignored;
  std::filesystem::path nearest = std::filesystem::absolute(folder, ignored);
  while (::access(nearest.c_str(), F_OK) != 0 && errno == ENOENT && nearest.has_relative_path())
    nearest = nearest.parent_path();
  if (::access(nearest.c_str(), W_OK | X_OK) != 0) throw_cannot_save(folder, errno);
  if (!std::filesystem::is_directory(nearest, ignored)) throw_cannot_save(folder, ENOTDIR);
}

/// The recipe's model and the folder's must be one.
void check_same_model(const ForeignModel& model, const Recipe& recipe) {
  ModelConfig is = model_config(recipe);
  Recipe wanted, stored;
  set_model(wanted, is);
  set_model(stored, model.config().model);
  std::vector<std::string> lines;
  for (const Difference& d : differences(wanted, stored))
    if (d.new_value != "none")
      lines.push_back(fmt::format("{} = {} (the recipe's is {})", d.key, d.new_value, d.old_value));
  if (lines.empty()) return;
  throw UserError(
      fmt::format("{} holds another model: set {}", model.folder().string(), fmt::join(lines, ", ")));
}

void report_differences(const Recipe& recipe, const RunState& old, const std::string& data_identity) {
  for (const Difference& d : differences(recipe_of(old), recipe))
    spdlog::warn("The recipe has changed since the checkpoint: {} was {}, is {}", d.key, d.old_value,
                 d.new_value);
  if (old.data != data_identity)
    spdlog::warn("The training data or the tokenizer is not the checkpoint's; samples go on at {}",
                 old.samples_consumed);
}

void log_failed_save(std::int64_t step, const UserError& error) {
  spdlog::error(
      "The checkpoint of step {} was not saved: {}. Training goes on; the last good checkpoint is untouched",
      step, error.what());
}

}  // namespace

Checkpointer::Checkpointer(const Recipe& recipe, DiskHook hook)
    : recipe_(recipe),
      hook_(std::move(hook)),
      folder_(std::filesystem::path(recipe.job.dump_folder) / recipe.checkpoint.folder) {}

void Checkpointer::report(const Job& job, std::ostream& out) {
  const Recipe::Checkpoint& c = recipe_.checkpoint;
  if (!c.enable) {
    out << "checkpoints: off\n";
    return;
  }
  if (!c.load_only) check_can_save(folder_);
  out << "checkpoints: " << folder_.string() << ", ";
  const std::vector<WantedTensor> wanted = wanted_state(job);
  if (const auto restored = restore_from_folder(wanted, true)) {
    out << fmt::format("would resume from step {}\n", restored->manifest.run.step);
    for (const Difference& d : differences(recipe_of(restored->manifest.run), recipe_))
      out << fmt::format("  changed since: {} was {}, is {}\n", d.key, d.old_value, d.new_value);
    return;
  }
  out << "none to resume from\n";
  if (!initial_path()) return;
  load_from_initial_path(wanted, true);
  out << "  would load weights from " << *initial_path() << "\n";
}

std::optional<Restored> Checkpointer::restore_from_folder(std::span<const WantedTensor> wanted,
                                                          bool check_only) {
  const Recipe::Checkpoint& c = recipe_.checkpoint;
  if (c.load_step < 0 || std::filesystem::exists(checkpoint_path(folder_, c.load_step))) refuse_later_steps();
  std::optional<Restored> restored = restore_checkpoint(folder_, c.load_step, wanted, coordinator_,
                                                        {.parts = parts_without(c.exclude_from_loading),
                                                         .model_parameters = parameter_names(wanted),
                                                         .check_only = check_only});
  if (restored) check_heads(restored->path, restored->manifest.run, recipe_);
  return restored;
}

std::optional<std::string> Checkpointer::initial_path() const {
  const Recipe::Checkpoint& c = recipe_.checkpoint;
  if (!c.initial_load_path && c.initial_load_in_hf) return recipe_.model.hf_assets_path;
  return c.initial_load_path;
}

void Checkpointer::load_from_initial_path(std::vector<WantedTensor> wanted, bool check_only) {
  const Recipe::Checkpoint& c = recipe_.checkpoint;
  if (c.initial_load_in_hf) {
    const ForeignModel model(*initial_path());
    check_same_model(model, recipe_);
    if (!check_only) load_with_bar(model, wanted);
    return;
  }
  if (is_foreign_model(*initial_path()))
    throw UserError(
        fmt::format("{} is no titan checkpoint but looks like a Hugging Face folder; set "
                    "checkpoint.initial_load_in_hf = true",
                    *initial_path()));
  if (c.initial_load_model_only)
    std::erase_if(wanted, [](const WantedTensor& w) { return w.kind != StateKind::parameter; });
  const Manifest manifest =
      load_checkpoint(*c.initial_load_path, wanted,
                      {.parts = {}, .model_parameters = parameter_names(wanted), .check_only = check_only});
  check_heads(*c.initial_load_path, manifest.run, recipe_);
}

void Checkpointer::refuse_later_steps() const {
  const Recipe::Checkpoint& c = recipe_.checkpoint;
  const bool counts_anew = !parts_without(c.exclude_from_loading).train_state;
  if (c.load_only || (c.load_step < 0 && !counts_anew)) return;
  const std::int64_t start = counts_anew ? 0 : c.load_step;
  std::vector<std::int64_t> later;
  for (const CheckpointEntry& entry : find_checkpoints(folder_))
    if (entry.status == CheckpointStatus::complete && entry.step > start) later.push_back(entry.step);
  if (later.empty()) return;
  throw UserError(fmt::format(
      "this run would start at step {}, but {} has later steps [{}], from which its next restart would "
      "resume; "
      "move them away, or {}",
      start, folder_.string(), fmt::join(later, ", "),
      counts_anew ? "load with checkpoint.initial_load_path, into another checkpoint.folder"
                  : fmt::format("leave out checkpoint.load_step to go on from step {}", later.back())));
}

std::optional<RunStart> Checkpointer::restore(const Job& job, const Executor& executor, const Recipe& recipe,
                                              const std::string& data_identity) {
  const Recipe::Checkpoint& c = recipe.checkpoint;
  if (!c.enable) return std::nullopt;
  spdlog::info("Checkpointing active. Checkpoints will be loaded from and saved to {}", folder_.string());
  if (!c.load_only) {
    std::error_code error;
    std::filesystem::create_directories(folder_, error);
    if (error) throw_cannot_save(folder_, error.value());
    check_can_save(folder_);
    remove_leftovers(folder_);
  }
  const double begin = steady_seconds();
  const std::optional<Restored> restored = restore_from_folder(wanted_state(job, executor), false);
  if (!restored) return std::nullopt;
  if (c.initial_load_path)
    spdlog::warn("checkpoint.initial_load_path is ignored: {} has checkpoints of this run", folder_.string());
  spdlog::info("Finished loading the checkpoint {} (step {}) in {:.2f} seconds", restored->path.string(),
               restored->manifest.run.step, steady_seconds() - begin);
  fresh_ = false;
  if (!c.load_only)  // a kill between a save and this leaves one too many
    keep_latest(folder_, c.keep_latest_k, restored->manifest.run.step);
  const LoadParts parts = parts_without(c.exclude_from_loading);
  RunStart start{.state = restored->manifest.run};
  report_differences(recipe, start.state, data_identity);
  if (!parts.dataloader) start.state.samples_consumed = 0;
  if (!parts.train_state) start.state.step = 0;
  if (!parts.lr_scheduler) start.schedule_step = start.state.step;
  if (!parts.optimizer) start.optimizer_step = start.state.step;
  return start;
}

void Checkpointer::load_initial_weights(const Job& job, const Executor& executor, const Recipe& recipe,
                                        std::uint64_t seed) {
  const Recipe::Checkpoint& c = recipe.checkpoint;
  if (!c.enable || !initial_path()) {
    spdlog::info("Weights: initialized from seed {}", seed);
    return;
  }
  load_from_initial_path(wanted_state(job, executor), false);
  fresh_ = false;
  spdlog::info("Weights: loaded from {} (checkpoint.{}){}", *initial_path(),
               c.initial_load_path ? "initial_load_path" : "initial_load_in_hf",
               c.initial_load_model_only ? "" : ", with optimizer state");
}

bool Checkpointer::due(std::int64_t step, bool last) const {
  const Recipe::Checkpoint& c = recipe_.checkpoint;
  if (!c.enable || c.load_only) return false;
  return last || step % c.interval == 0 || (step == 1 && c.enable_first_step_checkpoint);
}

bool Checkpointer::stages_next_step() {
  waited_seconds_ = 0;
  if (!requested_) return false;
  if (!background_.pending() || background_.ended()) return true;
  const double start = steady_seconds();
  const std::int64_t step = background_.step();
  const std::optional<SaveResult> saved = end_background_save();
  waited_seconds_ = steady_seconds() - start;
  if (saved)
    spdlog::warn(
        "slow save: training waited {:.2f} s for the checkpoint of step {}, {}; raise checkpoint.interval or "
        "save to a faster disk",
        waited_seconds_, step, describe(*saved));
  return true;
}

void Checkpointer::save_staged(const Job& job, const Executor& executor, double held_seconds) {
  if (background_.pending()) end_background_save();  // has ended, or stages_next_step would have waited
  Snapshot snapshot{.run = *std::exchange(requested_, std::nullopt), .tensors = staged_state(job, executor)};
  SaveOptions options;
  options.held_seconds = waited_seconds_ + held_seconds;
  background_.start(snapshot.run.step,
                    [this, snapshot = std::move(snapshot), options] { return save(snapshot, options); });
}

/// Waits for the save in the background, and logs its failure.
std::optional<SaveResult> Checkpointer::end_background_save() {
  try {
    return background_.take();
  } catch (const UserError& error) {
    log_failed_save(background_.step(), error);
    return std::nullopt;
  }
}

void Checkpointer::after_step(const Job& job, const Executor& executor, const RunState& state, bool last,
                              bool stopping) {
  if (background_.ended()) end_background_save();
  if (stopping && !recipe_.checkpoint.enable)
    spdlog::warn("checkpoint.enable is false: the run's state is not saved");
  const bool stop_save = stopping && recipe_.checkpoint.enable && !recipe_.checkpoint.load_only;
  if ((!due(state.step, last) && !stop_save) || state.step == saved_step_) return;
  if (recipe_.checkpoint.saves_in_background() && !last && !stopping) {
    requested_ = state;
    return;
  }
  if (background_.pending()) {
    if (!background_.ended())
      spdlog::info("Waiting until the checkpoint of step {} is written", background_.step());
    end_background_save();
  }
  try {
    SaveOptions options;
    options.model_only = last && recipe_.checkpoint.last_save_model_only;
    if (options.model_only) options.type = export_type(recipe_.checkpoint.export_dtype);
    const SaveResult saved = save({.run = state, .tensors = stored_state(job, executor)}, options);
    if (last && recipe_.checkpoint.last_save_in_hf) export_saved(saved.path, options.type);
    saved_step_ = state.step;
  } catch (const UserError& error) {
    if (last || stopping) throw;
    log_failed_save(state.step, error);
  }
}

void Checkpointer::export_saved(const std::filesystem::path& checkpoint, StoredType type) const {
  const std::filesystem::path folder = checkpoint.string() + "-hf";
  export_checkpoint(checkpoint, folder, "", {.type = type, .replace = true, .hook = hook_});
  spdlog::info("exported {}: a Hugging Face folder", folder.string());
}

SaveResult Checkpointer::save(const Snapshot& snapshot, SaveOptions options) {
  options.hook = hook_;
  const SaveResult saved = save_checkpoint(folder_, snapshot, coordinator_, options);
  keep_latest(folder_, recipe_.checkpoint.keep_latest_k, snapshot.run.step, hook_);
  return saved;
}

}  // namespace titan
