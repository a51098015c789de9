// A compiled job with memory behind it: backend, executor, and the steps that every use of a model begins
// with.
#pragma once

#include <cstdint>
#include <memory>

#include "engine/executor/executor.h"
#include "engine/program/job.h"
#include "kernels/op/backend.h"

namespace titan {

struct Machine;
struct MachineMemory;
struct Recipe;

/// The threads that compute when `asked` are asked for: for 0, as many as there are processors.
int compute_threads(std::int64_t asked);

/// This machine as the planner sees it, from the recipe's debug.threads.
Machine local_machine(const Recipe& recipe);

/// Throws UserError with the parts by role and the fixes when the job needs more memory than the machine has
/// free, or more addresses than the process may have for it and `threads` threads.
void check_memory(const Job& job, const MachineMemory& memory, int threads);

class Session {
 public:
  /// Allocates and touches the arenas. Throws UserError when memory is short.
  Session(Job job, int threads);

  const Job& job() const { return job_; }
  Executor& executor() { return *executor_; }
  const Executor& executor() const { return *executor_; }
  /// Of all arenas: to the CPU, device and host are one memory.
  std::int64_t memory_bytes() const;

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
