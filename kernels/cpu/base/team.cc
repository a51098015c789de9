#include "kernels/cpu/base/team.h"

#include <algorithm>
#include <new>

#ifdef _OPENMP
#include <omp.h>
#endif
#include <pmmintrin.h>
#include <xmmintrin.h>

#include "kernels/cpu/base/processors.h"

namespace titan::cpu {

void flush_subnormals() {
  _MM_SET_FLUSH_ZERO_MODE(_MM_FLUSH_ZERO_ON);
  _MM_SET_DENORMALS_ZERO_MODE(_MM_DENORMALS_ZERO_ON);
}

namespace {
constexpr std::align_val_t kCacheLine{64};
}

void Team::Free::operator()(std::byte* memory) const { ::operator delete(memory, kCacheLine); }

std::byte* Team::scratch(int thread, std::int64_t bytes) const {
  Slot& slot = scratch_[static_cast<std::size_t>(thread)];
  if (slot.bytes < bytes) {
    slot.memory.reset();
    slot.memory.reset(static_cast<std::byte*>(::operator new(static_cast<std::size_t>(bytes), kCacheLine)));
    slot.bytes = bytes;
  }
  return slot.memory.get();
}

void Team::adopt(std::span<const int> processors) const {
#ifdef _OPENMP
  // oneDNN divides its work by this number and leaves out the shares of members that are not granted.
  omp_set_num_threads(std::min(threads_, omp_get_thread_limit()));
  omp_set_dynamic(0);
  if (threads_ > 1 && !processors.empty()) {
#pragma omp parallel num_threads(threads_)
    bind_thread(processors[omp_get_thread_num() % processors.size()]);
  }
#else
  (void)processors;
#endif
}

void Team::parallel_for(std::int64_t n, std::int64_t grain,
                        FunctionRef<void(std::int64_t, std::int64_t)> body) const {
  if (n <= 0) return;
  const std::int64_t blocks = (n + grain - 1) / grain;
  const int threads = static_cast<int>(std::min<std::int64_t>(threads_, blocks));
  if (threads <= 1) return body(0, n);
#ifdef _OPENMP
#pragma omp parallel num_threads(threads)
  {
    flush_subnormals();
    // OpenMP may grant fewer members than were asked for (OMP_THREAD_LIMIT): those there share all blocks.
    const std::int64_t t = omp_get_thread_num(), members = omp_get_num_threads();
    const std::int64_t begin = blocks * t / members * grain,
                       end = std::min(n, blocks * (t + 1) / members * grain);
    if (begin < end) body(begin, end);
  }
#else
  body(0, n);
#endif
}

void Team::parallel_items(std::int64_t n, FunctionRef<void(std::int64_t, int)> body) const {
  const int threads = static_cast<int>(std::min<std::int64_t>(threads_, n));
#ifdef _OPENMP
  if (threads > 1) {
#pragma omp parallel num_threads(threads)
    {
      flush_subnormals();
#pragma omp for schedule(dynamic, 1)
      for (std::int64_t i = 0; i < n; ++i) body(i, omp_get_thread_num());
    }
    return;
  }
#endif
  (void)threads;
  for (std::int64_t i = 0; i < n; ++i) body(i, 0);
}

}  // namespace titan::cpu
