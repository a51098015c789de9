// The checkpoints in a folder: finding them, keeping the latest, and the reports of `titan checkpoint`.
#pragma once

#include "engine/io/file.h"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace titan {

enum class CheckpointStatus { complete, incomplete, damaged };

/// `complete` here means that titan.json is whole and all files have their size; content is hashed by load
/// and verify.
struct CheckpointEntry {
  std::filesystem::path path;
  int64_t step = 0;
  CheckpointStatus status = CheckpointStatus::complete;
  std::string problem;  ///< of a damaged one
};

std::filesystem::path checkpoint_path(const std::filesystem::path& folder, int64_t step);
/// In order of step. An absent folder holds none.
std::vector<CheckpointEntry> find_checkpoints(const std::filesystem::path& folder);
/// The complete one with the highest step.
std::optional<CheckpointEntry> latest_checkpoint(const std::filesystem::path& folder);

/// Removes the leftovers (step-*.tmp) of saves that were killed, with a log line each. For rank 0, while
/// nobody saves.
void remove_leftovers(const std::filesystem::path& folder);
/// Removes the oldest complete checkpoints until `keep_latest_k` are left (0: keeps all); never the newest.
/// Those after `saved_step`, which the run has just saved, do not count: a damaged one that was skipped must
/// not displace good ones. What cannot be removed is logged and left. For rank 0.
void keep_latest(const std::filesystem::path& folder, int64_t keep_latest_k, int64_t saved_step,
                 const DiskHook& hook = {});

}  // namespace titan
