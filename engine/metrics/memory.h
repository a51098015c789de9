// How much memory this process uses and how much it may use. All sizes in bytes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace titan {

struct ProcessMemory {
  int64_t resident = 0;       // VmRSS
  int64_t anonymous = 0;      // RssAnon: the heap and the arena, not mapped files
  int64_t peak_resident = 0;  // VmHWM
};

struct MachineMemory {
  int64_t total = 0;      // of the machine, or the cgroup's limit where that is lower
  int64_t available = 0;  // what could still be allocated without swapping
  /// What `ulimit -v` leaves of this process's address space, where it is limited.
  std::optional<int64_t> address_space = {};
};

/// Both read Linux's /proc and /sys below `root` (tests pass a folder of their own). ProcessMemory is all
/// zeros and MachineMemory unlimited fields are zero where the files are missing.
ProcessMemory process_memory(const std::filesystem::path& root = "/");

/// Respects the memory limits of every cgroup this process is in (v2 or v1), as containers and Slurm set
/// them.
MachineMemory machine_memory(const std::filesystem::path& root = "/");

}  // namespace titan
