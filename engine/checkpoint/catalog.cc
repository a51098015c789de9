#include "engine/checkpoint/catalog.h"

#include "engine/checkpoint/blocks.h"
#include "engine/checkpoint/manifest.h"
#include "kernels/base/error.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <charconv>

namespace titan {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "step-", kLeftover = ".tmp";

/// N of "step-N", or nothing.
std::optional<int64_t> step_of(std::string_view name) {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  name.remove_prefix(kPrefix.size());
  int64_t step = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), step);
  if (error != std::errc() || end != name.data() + name.size() || step < 0) return std::nullopt;
  return step;
}

bool is_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

/// A complete or damaged entry.
CheckpointEntry look_at(const fs::path& path, int64_t step) {
  try {
    const Manifest manifest = read_manifest(path);
    for (const StoredFile& stored : manifest.files) check_size(open_stored(path, stored), stored);
    return {path, step, CheckpointStatus::complete, ""};
  } catch (const UserError& error) {
    return {path, step, CheckpointStatus::damaged, error.what()};
  }
}

}  // namespace

fs::path checkpoint_path(const fs::path& folder, int64_t step) {
  return folder / fmt::format("{}{}", kPrefix, step);
}

std::vector<CheckpointEntry> find_checkpoints(const fs::path& folder) {
  std::vector<CheckpointEntry> entries;
  if (!path_exists(folder)) return entries;
  std::error_code error;
  for (fs::directory_iterator item(folder, error), end; !error && item != end; item.increment(error)) {
    const fs::path& path = item->path();
    std::string name = path.filename().string();
    const bool leftover = name.ends_with(kLeftover);
    if (leftover) name.resize(name.size() - kLeftover.size());
    const auto step = step_of(name);
    if (!step || !is_folder(path)) continue;
    if (leftover)
      entries.push_back({path, *step, CheckpointStatus::incomplete, "its save did not finish"});
    else
      entries.push_back(look_at(path, *step));
  }
  if (error) throw_disk_error("list", folder, error.value());
  std::sort(entries.begin(), entries.end(), [](const CheckpointEntry& a, const CheckpointEntry& b) {
    return std::pair(a.step, a.path) < std::pair(b.step, b.path);
  });
  return entries;
}

std::optional<CheckpointEntry> latest_checkpoint(const fs::path& folder) {
  std::optional<CheckpointEntry> latest;
  for (CheckpointEntry& entry : find_checkpoints(folder))
    if (entry.status == CheckpointStatus::complete) latest = std::move(entry);
  return latest;
}

void remove_leftovers(const fs::path& folder) {
  for (const CheckpointEntry& entry : find_checkpoints(folder)) {
    if (entry.status != CheckpointStatus::incomplete) continue;
    try {
      remove_tree(entry.path, {});
      spdlog::info("removed {}, left by a save that did not finish", entry.path.string());
    } catch (const UserError& error) {
      spdlog::warn("{}", error.what());
    }
  }
}

void keep_latest(const fs::path& folder, int64_t keep_latest_k, int64_t saved_step, const DiskHook& hook) {
  if (keep_latest_k <= 0) return;
  std::vector<CheckpointEntry> complete;
  for (CheckpointEntry& entry : find_checkpoints(folder))
    if (entry.status == CheckpointStatus::complete && entry.step <= saved_step)
      complete.push_back(std::move(entry));
  const auto removable = static_cast<int64_t>(complete.size()) - keep_latest_k;
  for (int64_t i = 0; i < removable; ++i) {
    const fs::path& path = complete[static_cast<size_t>(i)].path;
    const fs::path doomed =
        path.string() + std::string(kLeftover);  // so that a half-removed one is no checkpoint
    try {
      if (path_exists(doomed)) remove_tree(doomed, hook);
      rename_or_exchange(path, doomed, hook);
      remove_tree(doomed, hook);
    } catch (const UserError& error) {
      spdlog::warn("keeping {}: {}", path.string(), error.what());
    }
  }
}

}  // namespace titan
