// Saving: every rank writes its own file into step-N.tmp, rank 0 commits by one rename. A crash at any moment
// leaves the checkpoints that existed before, and a leftover *.tmp.
#pragma once

#include "engine/checkpoint/coordinator.h"
#include "engine/checkpoint/manifest.h"
#include "engine/io/file.h"

#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace titan {

/// Gives elements [begin, begin + out.size()) of a tensor.
using ReadElements = std::function<void(int64_t begin, std::span<float> out)>;

/// One stored tensor of this rank: piece.elements() consecutive floats, in host memory or from `read`.
struct StateTensor {
  Piece piece;
  StateKind kind = StateKind::parameter;
  const float* data = nullptr;
  ReadElements read = {};  ///< where data is null: called in order, for a few MiB at a time
};

/// What a save writes. It only points to memory, which must not change meanwhile.
struct Snapshot {
  RunState run;
  std::vector<StateTensor> tensors;
};

struct SaveOptions {
  bool model_only = false;                  ///< last_save_model_only: no moments
  StoredType type = StoredType::f32;        ///< export_dtype: f32, bf16 or f16
  std::chrono::seconds timeout{3600};       ///< for the slowest rank's disk, not for communication
  int64_t block_bytes = int64_t{16} << 20;  ///< of one hash; a multiple of 8
  std::optional<double> held_seconds;       ///< how long training waited for the snapshot: for the log
  DiskHook hook;
};

struct SaveResult {
  std::filesystem::path path;
  int64_t bytes = 0;  ///< of all ranks
  double seconds = 0;
};

/// "45.8 MiB in 0.05 s (961 MiB/s)".
std::string describe(const SaveResult& saved);

/// Saves folder/step-N; all ranks call it. An existing step-N is replaced in one step. Throws UserError on
/// every rank if one of them fails (disk full, read-only folder, too little space predicted); the .tmp is
/// then removed.
SaveResult save_checkpoint(const std::filesystem::path& folder, const Snapshot& snapshot,
                           Coordinator& coordinator, const SaveOptions& options = {});

}  // namespace titan
