// Loading: fills the pieces a rank wants from the pieces a checkpoint has, and hashes every block it reads.
#pragma once

#include "engine/checkpoint/coordinator.h"
#include "engine/checkpoint/manifest.h"
#include "kernels/base/function_ref.h"

#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace titan {

/// Takes elements [begin, begin + values.size()) of a tensor.
using WriteElements = std::function<void(int64_t begin, std::span<const float> values)>;

/// A piece to fill: piece.elements() floats in host memory or through `write`.
struct WantedTensor {
  Piece piece;
  StateKind kind = StateKind::parameter;
  float* data = nullptr;
  WriteElements write = {};  ///< where data is null: called in any order, by several threads
};

/// Lets `f` write elements [begin, begin + count) of a tensor, all of them.
void fill_elements(const WantedTensor& tensor, int64_t begin, int64_t count,
                   FunctionRef<void(std::span<float>)> f);

/// Which parts of the training state to take; the model always is.
struct LoadParts {
  bool optimizer = true;     ///< else targets of exp_avg and exp_avg_sq stay as they are
  bool lr_scheduler = true;  ///< for the caller: else the schedule starts over
  bool dataloader = true;    ///< for the caller: else the data starts over
  bool train_state = true;   ///< for the caller: else the step count starts over
};
/// From checkpoint.exclude_from_loading. Throws UsageError for "model" and unknown names.
LoadParts parts_without(std::span<const std::string> exclude_from_loading);

struct LoadOptions {
  LoadParts parts;
  /// All parameters of the model, other ranks' included; where given, a checkpoint that has others is
  /// refused.
  std::vector<std::string> model_parameters;
  int threads = 2;  ///< that read and hash
  std::chrono::seconds timeout{3600};
  bool check_only =
      false;  ///< do all checks but those of the content, and read no tensor: targets may be null
};

/// Fills `wanted` from one checkpoint. Throws UserError when the model differs (another shape, a missing or
/// an extra parameter, no optimizer state), DamagedCheckpoint when a file is missing, too short, or a hash
/// differs.
Manifest load_checkpoint(const std::filesystem::path& checkpoint, std::span<const WantedTensor> wanted,
                         const LoadOptions& options = {});

/// The same with the manifest of `checkpoint` at hand.
void load_checkpoint(const std::filesystem::path& checkpoint, const Manifest& manifest,
                     std::span<const WantedTensor> wanted, const LoadOptions& options);

struct Restored {
  std::filesystem::path path;
  Manifest manifest;
};

/// Fills `wanted` on every rank from the newest undamaged checkpoint of `folder`, or exactly from step
/// `load_step` if that is not -1. All ranks use the same one; damaged ones are logged. Empty when there is
/// none to start from; throws when there were some but all are damaged.
std::optional<Restored> restore_checkpoint(const std::filesystem::path& folder, int64_t load_step,
                                           std::span<const WantedTensor> wanted, Coordinator& coordinator,
                                           const LoadOptions& options = {});

}  // namespace titan
