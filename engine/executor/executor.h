// The executor runs a job's programs on a backend. It owns the arenas: allocated and touched once, never
// freed or grown.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "engine/program/job.h"
#include "engine/program/order.h"
#include "kernels/op/backend.h"

namespace titan {

/// A node failed: its line as dump prints it, and why.
class NodeError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class Executor {
 public:
  /// The job, the backend and the communicators (null: one rank) must outlive the executor. Throws UserError
  /// when the backend lacks the memory.
  Executor(const Job& job, Backend& backend, CommunicatorSet* communicators = nullptr);
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  /// Runs a program's whole timeline; returns when all lanes have finished. `times`, if given, gets when each
  /// node of the unrolled program ran.
  void run(int program, std::vector<CommandTime>* times = nullptr);

  /// Copies between host memory and a contiguous value, whole. Not while a program runs.
  void write(int program, ValueId value, const void* from, int instance = 0);
  void read(int program, ValueId value, void* to, int instance = 0) const;

  /// Whether the host reads and writes the value through address().
  bool host_addressable(int program, ValueId value) const;
  /// Copies of elements [begin, begin + count) of a contiguous f32 value; from several threads.
  void write_elements(int program, ValueId value, std::int64_t begin, std::span<const float> from) const;
  void read_elements(int program, ValueId value, std::int64_t begin, std::span<float> to) const;

  /// Where a value is in the backend's memory; null when the program does not use it.
  std::byte* address(int program, ValueId value, int instance = 0) const;

  /// What the backend was asked for.
  std::int64_t arena_bytes(Space space) const;

 private:
  struct Prepared;
  const Prepared& prepared(int program);

  const Job& job_;
  Backend& backend_;
  CommunicatorSet* communicators_;
  std::array<std::byte*, 2> arenas_{};
  std::vector<std::unique_ptr<Prepared>> prepared_;
};

}  // namespace titan
