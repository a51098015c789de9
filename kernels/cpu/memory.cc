#include "kernels/cpu/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "kernels/base/error.h"
#include "kernels/cpu/base/team.h"

namespace titan::cpu {
namespace {

constexpr std::int64_t kPage = 4096, kTouchGrain = 8 << 20;

std::optional<std::int64_t> read_number(const std::string& path) {
  std::ifstream file(path);
  std::int64_t value = 0;
  return file >> value ? std::optional(value) : std::nullopt;  // "max" is no number: no limit
}

std::int64_t memory_available_on_machine() {
  std::ifstream file("/proc/meminfo");
  std::string name, unit;
  std::int64_t kilobytes = 0;
  while (file >> name >> kilobytes) {
    if (name == "MemAvailable:") return kilobytes * 1024;
    std::getline(file, unit);
  }
  return std::numeric_limits<std::int64_t>::max();
}

/// What the limit of this process's control group (version 2) leaves.
std::int64_t memory_left_in_group() {
  std::ifstream file("/proc/self/cgroup");
  std::string line, folder = "/sys/fs/cgroup";
  while (std::getline(file, line))
    if (line.starts_with("0::")) folder += line.substr(3);
  const auto limit = read_number(folder + "/memory.max"), used = read_number(folder + "/memory.current");
  if (!limit || !used) return std::numeric_limits<std::int64_t>::max();
  return std::max<std::int64_t>(0, *limit - *used);
}

std::string gibibytes(std::int64_t bytes) {
  return fmt::format("{:.2f} GiB ({} bytes)", static_cast<double>(bytes) / (1 << 30), bytes);
}

}  // namespace

std::int64_t available_memory() { return std::min(memory_available_on_machine(), memory_left_in_group()); }

MappedBlock::MappedBlock(std::int64_t bytes, const Team& team) : bytes_(bytes) {
  if (bytes == 0) return;
  const std::int64_t available = available_memory();
  if (bytes > available)
    throw UserError(fmt::format(
        "not enough memory: {} asked for, {} available; use a smaller batch, a shorter sequence, more "
        "activation checkpointing or a smaller model",
        gibibytes(bytes), gibibytes(available)));
  void* pages = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED)
    throw UserError(
        fmt::format("the system refuses {} of memory: {}; see `ulimit -v` and vm.overcommit_memory",
                    gibibytes(bytes), std::strerror(errno)));
  data_ = static_cast<std::byte*>(pages);
  madvise(pages, bytes, MADV_HUGEPAGE);  // a hint: small pages work too
  team.parallel_for(bytes, kTouchGrain, [this](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; i += kPage) data_[i] = std::byte{0};
  });
}

MappedBlock::~MappedBlock() {
  if (data_ != nullptr) munmap(data_, bytes_);
}

MappedBlock::MappedBlock(MappedBlock&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

}  // namespace titan::cpu
