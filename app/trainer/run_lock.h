// One run at a time in a dump folder.
#pragma once

#include <filesystem>

namespace titan {

/// Held while a run writes to its dump folder: two would overwrite each other's checkpoints and mix their
/// metrics. The system lets go of it when the process ends, however it ends.
class RunLock {
 public:
  /// Creates the folder. Throws UserError if another process holds it. A folder that cannot be written, or a
  /// file system without locks, is not locked.
  explicit RunLock(const std::filesystem::path& dump_folder);
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

 private:
  int descriptor_ = -1;
};

}  // namespace titan
