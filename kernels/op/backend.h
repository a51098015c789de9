// Backend: memory and lanes that run operations. The executor turns a placed program into a flat list of
// commands, in list order, and hands it over; the backend decides how lanes are made (threads on the CPU,
// streams on CUDA).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>

#include "kernels/op/op.h"

namespace titan {

class CommunicatorSet;

enum class Space : std::uint8_t { device, host };

/// Where a node's operands are. `addresses` is indexed by ValueId; bit i of `overwrite` says that the i-th
/// present operand of the op (declaration order), being an accumulating one, is written for the first time
/// and must be overwritten.
struct Binding {
  std::byte* const* addresses = nullptr;
  std::uint32_t overwrite = 0;
};

/// Position in a lane: the lane has finished its first `ticket` commands.
struct Wait {
  int lane;
  std::int64_t ticket;
};

struct Command {
  const Op* op = nullptr;
  Binding binding;
  int lane = 0;
  std::int64_t ticket = 0;      ///< 1-based position of this command in its lane
  std::span<const Wait> waits;  ///< must be reached before this command starts
  bool signals = false;         ///< another lane waits for this ticket
  bool on_host = false;         ///< runs on the CPU, whatever the device is; all operands are in host memory
};

/// When a command ran: seconds since its execution began.
struct CommandTime {
  double begin = 0, end = 0;
};

/// A command failed: which one, and why. The executor adds the node's name.
class CommandError : public std::runtime_error {
 public:
  CommandError(std::size_t index, const std::string& what) : std::runtime_error(what), index_(index) {}
  std::size_t index() const { return index_; }

 private:
  std::size_t index_;
};

/// Of a device, in bytes, whoever uses it; zeros where it is the host's.
struct DeviceMemory {
  std::int64_t free_bytes = 0, total_bytes = 0;
};

class Backend {
 public:
  virtual ~Backend() = default;
  /// One block of zeroed memory, touched in parallel, freed with the backend. Throws UserError when there is
  /// not enough.
  virtual std::byte* allocate(Space space, std::int64_t bytes) = 0;
  /// Runs the commands, which stay where they are until forget(); returns when all lanes have finished. The
  /// first error cancels the others and is thrown as CommandError. `times`, unless empty, has one entry a
  /// command and is filled in.
  virtual void execute(std::span<const Command> commands, CommunicatorSet* communicators,
                       std::span<CommandTime> times) = 0;
  /// These commands will not run again: drops what the backend has prepared for them.
  virtual void forget(std::span<const Command> commands) = 0;
  /// Whether the host reads and writes this memory through its addresses.
  virtual bool host_addressable(Space space) const = 0;
  /// Blocking copies between caller memory and backend memory; from several threads.
  virtual void upload(const void* from, std::byte* to, std::int64_t bytes) = 0;
  virtual void download(const std::byte* from, void* to, std::int64_t bytes) = 0;
  virtual DeviceMemory device_memory() { return {}; }
};

}  // namespace titan
