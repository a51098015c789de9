// What the CUDA backend keeps of a command list: the events between its lanes, and once it runs again the
// graph.
#pragma once

#include <cstddef>
#include <exception>
#include <map>
#include <span>
#include <vector>

#include "kernels/cuda/backend/handles.h"
#include "kernels/op/backend.h"

namespace titan::cuda {

/// A command as cudaLaunchHostFunc hands it over, and what went wrong in it.
struct HostCall {
  Backend* host = nullptr;
  Command command;
  std::exception_ptr error;
};

class Recording {
 public:
  explicit Recording(std::span<const Command> commands);

  /// The event of the command with that ticket, which must be one that signals.
  cudaEvent_t event(const Wait& wait) const;
  /// The event of the command at `index`; null unless it signals.
  cudaEvent_t event(std::size_t index) const { return events_[index].get(); }
  int lanes() const { return static_cast<int>(command_of_.size()); }
  /// Throws the first error of a host call as CommandError, and forgets it.
  void rethrow_host_error();
  bool uses(int lane) const { return !command_of_[static_cast<std::size_t>(lane)].empty(); }

  /// What the host is to run for a command that is on_host: lives as long as the graph that calls it.
  HostCall& host_call(std::size_t index) { return host_calls_.try_emplace(index).first->second; }

  int runs = 0;
  GraphExec graph;
  bool eager = false;  ///< for good: the device has no memory for a graph

 private:
  std::map<std::size_t, HostCall> host_calls_;
  std::vector<Event> events_;                         ///< by command
  std::vector<std::vector<std::size_t>> command_of_;  ///< by lane and ticket − 1
};

}  // namespace titan::cuda
