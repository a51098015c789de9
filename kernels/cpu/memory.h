// Large blocks of memory from the system, and how much there is.
#pragma once

#include <cstddef>
#include <cstdint>

namespace titan::cpu {

class Team;

/// Anonymous zeroed pages, huge where the kernel has them; unmapped with the object.
class MappedBlock {
 public:
  /// Throws UserError when the machine (or this process's control group) has less than `bytes` available.
  /// Pages are touched here, by the team: no page fault later, and each page near a thread that uses it.
  MappedBlock(std::int64_t bytes, const Team& team);
  ~MappedBlock();
  MappedBlock(MappedBlock&& other) noexcept;
  MappedBlock& operator=(MappedBlock&&) = delete;

  std::byte* data() const { return data_; }

 private:
  std::byte* data_ = nullptr;
  std::int64_t bytes_ = 0;
};

/// Bytes this process can still take without swapping: MemAvailable, or what is left of a control group's
/// limit.
std::int64_t available_memory();

}  // namespace titan::cpu
