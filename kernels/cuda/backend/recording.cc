#include "kernels/cuda/backend/recording.h"

#include <utility>

#include "kernels/base/error.h"

namespace titan::cuda {

Recording::Recording(std::span<const Command> commands) : events_(commands.size()), command_of_(1) {
  for (std::size_t i = 0; i < commands.size(); ++i) {
    const Command& command = commands[i];
    const auto lane = static_cast<std::size_t>(command.lane);
    if (command_of_.size() <= lane) command_of_.resize(lane + 1);
    command_of_[lane].push_back(i);
    TITAN_CHECK_EQ(command.ticket, static_cast<std::int64_t>(command_of_[lane].size()));
    if (command.signals) events_[i] = make_event(false);
    for (const Wait& wait : command.waits)
      TITAN_CHECK(event(wait) != nullptr, "command {} waits for one that does not signal", i);
  }
}

void Recording::rethrow_host_error() {
  for (auto& [index, call] : host_calls_) {
    const std::exception_ptr error = std::exchange(call.error, nullptr);
    if (error == nullptr) continue;
    try {
      std::rethrow_exception(error);
    } catch (const std::exception& e) {
      throw CommandError(index, e.what());
    }
  }
}

cudaEvent_t Recording::event(const Wait& wait) const {
  const auto lane = static_cast<std::size_t>(wait.lane), ticket = static_cast<std::size_t>(wait.ticket);
  TITAN_CHECK(lane < command_of_.size() && ticket >= 1 && ticket <= command_of_[lane].size(),
              "a wait for command {} of lane {}, which comes later or never", ticket, lane);
  return events_[command_of_[lane][ticket - 1]].get();
}

}  // namespace titan::cuda
