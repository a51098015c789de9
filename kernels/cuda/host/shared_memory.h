// Shared memory of a block on the host.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

namespace titan::cuda::host {

/// One array: NaN in every float format, and aligned to 16 bytes but not to 32, more than which kernels must
/// not count on. It ends where the allocation does, for AddressSanitizer.
class SharedMemory {
 public:
  explicit SharedMemory(std::size_t bytes = 0) {
    if (bytes == 0) return;
    void* p = nullptr;
    if (posix_memalign(&p, 2 * kAlignment, kAlignment + bytes) != 0) throw std::bad_alloc();
    memory_.reset(static_cast<std::byte*>(p));
    std::memset(p, 0xff, kAlignment + bytes);
  }
  std::byte* get() const { return memory_ != nullptr ? memory_.get() + kAlignment : nullptr; }

 private:
  static constexpr std::size_t kAlignment = 16;
  struct Free {
    void operator()(std::byte* p) const { std::free(p); }
  };
  std::unique_ptr<std::byte, Free> memory_;
};

}  // namespace titan::cuda::host
