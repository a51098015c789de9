// Fibers: functions that stop in the middle and go on later, on one operating-system thread. On the host a
// CUDA thread is one.
#pragma once

#include <cstddef>
#include <exception>
#include <optional>

#include "kernels/base/function_ref.h"

namespace titan::cuda::host {

/// A stack with an unmapped page below it: running over its end is a fault, not a silent error.
class FiberStack {
 public:
  explicit FiberStack(std::size_t bytes = 128 << 10);
  ~FiberStack();
  FiberStack(const FiberStack&) = delete;
  FiberStack& operator=(const FiberStack&) = delete;
  std::byte* bottom() const { return mapping_ + kGuard; }
  std::size_t bytes() const { return bytes_; }

 private:
  static constexpr std::size_t kGuard = 4096;
  std::byte* mapping_;
  std::size_t bytes_;
};

class Fiber {
 public:
  /// Makes `body` the next thing that resume() runs, on `stack`. Both must outlive it.
  void start(const FiberStack& stack, FunctionRef<void()> body);
  /// Runs the body until it yields or ends. Rethrows what it threw.
  void resume();
  /// In the body: back to whoever resumed.
  void yield();
  bool done() const { return !body_.has_value(); }

 private:
  void run();
  static void entry(Fiber* self);

  const FiberStack* stack_ = nullptr;
  std::optional<FunctionRef<void()>> body_;
  std::exception_ptr error_;
  void* own_pointer_ = nullptr;     ///< the body's stack pointer while it does not run
  void* caller_pointer_ = nullptr;  ///< the resumer's while the body runs
  const void* caller_bottom_ = nullptr;
  std::size_t caller_bytes_ = 0;
  void* fake_stack_ = nullptr;
};

}  // namespace titan::cuda::host
