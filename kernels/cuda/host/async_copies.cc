#include "kernels/cuda/host/async_copies.h"

#include <cstdint>
#include <cstring>

namespace titan::cuda::host {

void AsyncCopies::begin(void* to, const void* from) {
  std::memset(to, 0xff, kBytes);
  copies_.push_back({to, from});
}

void AsyncCopies::wait(std::size_t pending) {
  if (group_ends_.size() <= pending) return;
  const std::size_t groups = group_ends_.size() - pending, count = group_ends_[groups - 1];
  for (std::size_t i = 0; i < count; ++i) {
    const Copy& copy = copies_[i];
    if (copy.from == nullptr)
      std::memset(copy.to, 0, kBytes);
    else
      std::memcpy(copy.to, copy.from, kBytes);
  }
  copies_.erase(copies_.begin(), copies_.begin() + static_cast<std::ptrdiff_t>(count));
  group_ends_.erase(group_ends_.begin(), group_ends_.begin() + static_cast<std::ptrdiff_t>(groups));
  for (std::size_t& end : group_ends_) end -= count;
}

}  // namespace titan::cuda::host
