// A compiled job with memory behind it: backend, executor, and the steps that every use of a model begins
// with.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "app/trainer/device.h"
#include "engine/executor/executor.h"
#include "engine/program/job.h"
#include "kernels/op/backend.h"

namespace titan {

/// Throws UserError with the parts by role and the fixes when the job needs more memory than the device and
/// the machine have free, or more addresses than the process may have.
void check_memory(const Job& job, const DeviceRequest& request);

class Session {
 public:
  /// Allocates and touches the arenas. Throws UserError when memory is short.
  Session(Job job, const DeviceRequest& request);

  const Job& job() const { return job_; }
  Executor& executor() { return *executor_; }
  const Executor& executor() const { return *executor_; }
  /// Of the arenas in the device's memory, which to a CPU are all.
  std::int64_t memory_bytes() const;
  /// What else of a GPU's memory is taken, in bytes: by the driver, libraries, graphs and other processes.
  /// None on a CPU.
  std::optional<std::int64_t> beside_arena_bytes() const;

  /// Initial weights from a seed.
  void initialize(std::uint64_t seed);
  /// Rebuilds what is derived from weights and constants; after initialize and after every load.
  void refresh();

 private:
  Job job_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Executor> executor_;
};

}  // namespace titan
