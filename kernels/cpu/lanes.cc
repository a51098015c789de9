#include "kernels/cpu/lanes.h"

#include <immintrin.h>

#include <utility>

#include "kernels/base/threads.h"
#include "kernels/cpu/base/processors.h"

namespace titan::cpu {
namespace {

constexpr int kSpins = 200;  // some microseconds: longer would take the processor from the compute team

}  // namespace

bool Progress::reached(std::int64_t ticket) const {
  if (cancelled_) throw Cancelled();
  return done_ >= ticket;
}

// Either the waiter's check sees the new count, or advance() sees the waiter: both are sequentially
// consistent.
void Progress::advance() {
  ++done_;
  if (sleepers_ == 0) return;
  { const std::lock_guard lock(mutex_); }
  changed_.notify_all();
}

void Progress::wait_for(std::int64_t ticket) {
  for (int i = 0; i < kSpins; ++i) {
    if (reached(ticket)) return;
    _mm_pause();
  }
  std::unique_lock lock(mutex_);
  struct Sleeper {
    std::atomic<int>& count;
    explicit Sleeper(std::atomic<int>& c) : count(c) { ++count; }
    ~Sleeper() { --count; }
  } sleeper(sleepers_);
  changed_.wait(lock, [&] { return reached(ticket); });
}

void Progress::cancel() {
  cancelled_ = true;
  { const std::lock_guard lock(mutex_); }
  changed_.notify_all();
}

Lane::Lane(const Options& options) : team_(options.threads), gemm_(options.isa, options.gemm) {
  thread_ = start_thread([this, bind = options.bind] { serve(bind); });
}

Lane::~Lane() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Lane::start(std::function<void()> job) {
  {
    const std::lock_guard lock(mutex_);
    job_ = std::move(job);
  }
  changed_.notify_all();
}

void Lane::join() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !job_; });
}

void Lane::serve(bool bind) {
  flush_subnormals();
  team_.adopt(bind ? allowed_processors() : std::vector<int>{});
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return stopping_ || job_; });
    if (!job_) return;
    lock.unlock();
    job_();
    lock.lock();
    job_ = nullptr;
    changed_.notify_all();
  }
}

}  // namespace titan::cpu
