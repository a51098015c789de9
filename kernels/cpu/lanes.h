// Lanes of the CPU backend: one persistent thread each, and the progress that others wait for.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>

#include "kernels/cpu/base/team.h"
#include "kernels/cpu/gemm/gemm_engine.h"

namespace titan::cpu {

/// Thrown out of a wait when another lane has failed.
struct Cancelled {};

/// How many commands a lane has finished in one execution.
class Progress {
 public:
  void advance();
  /// Returns when `ticket` commands are finished; spins a little, then sleeps. Throws Cancelled after
  /// cancel().
  void wait_for(std::int64_t ticket);
  /// Wakes everybody who waits, now and later.
  void cancel();

 private:
  bool reached(std::int64_t ticket) const;

  std::atomic<std::int64_t> done_{0};
  std::atomic<bool> cancelled_{false};
  std::atomic<int> sleepers_{0};
  std::mutex mutex_;
  std::condition_variable changed_;
};

/// A thread that runs one job at a time, and what it owns: its team and its GEMM engine.
class Lane {
 public:
  struct Options {
    int threads = 1;  ///< more than one only for the compute lane
    bool bind = false;
    Isa isa = Isa::baseline;
    GemmChoice gemm = GemmChoice::automatic;
  };
  explicit Lane(const Options& options);
  ~Lane();
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  /// Hands `job` to the thread; join() waits for its end. The job must not throw.
  void start(std::function<void()> job);
  void join();

  const Team& team() const { return team_; }
  GemmEngine& gemm() { return gemm_; }

 private:
  void serve(bool bind);

  Team team_;
  GemmEngine gemm_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void()> job_;  ///< empty: idle
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace titan::cpu
