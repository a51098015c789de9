#include "kernels/cuda/host/block_resources.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <string>

namespace titan::cuda::host {
namespace {

struct NumberedBarrier {
  int threads = 0, come = 0;
  unsigned long passed = 0;
};
struct NumberedBarriers {
  std::array<NumberedBarrier, 16> of;
};

int thread_count() { return static_cast<int>(block_size().count()); }

int own_group() {
  const Dim3 index = thread_index(), size = block_size();
  return static_cast<int>(index.x + size.x * (index.y + size.y * index.z)) / kWarpGroup;
}

constexpr int kRegisters = 64 << 10, kMostRegisters = 256, kUnit = 8;

int registers_at_launch() { return std::min(kMostRegisters, kRegisters / thread_count() / kUnit * kUnit); }

/// Registers of each thread by warp group, where they are not those of the launch.
struct Registers {
  std::map<int, int> of, wanted;

  int of_group(int group) const {
    const auto it = of.find(group);
    return it == of.end() ? registers_at_launch() : it->second;
  }
  int free() const {
    int left = 0;
    for (const auto& [group, count] : of) left += registers_at_launch() - count;
    return left;
  }
  /// Gives a warp group what it wants, if there is enough.
  bool grant(int group) {
    const int count = wanted.at(group), more = count - of_group(group);
    if (more > 0 && more > free()) return false;
    of[group] = count;
    return true;
  }
};

}  // namespace

void numbered_barrier(int number, int threads, Site site) {
  if (number < 1 || number > 15) fail(fmt::format("barrier {}: numbers are 1 to 15", number), site);
  if (threads <= 0 || threads % kWarp != 0 || threads > thread_count())
    fail(fmt::format("barrier {} of {} threads in a block of {}", number, threads, thread_count()), site);
  NumberedBarrier& b = of_block<NumberedBarriers>().of[static_cast<std::size_t>(number)];
  if (b.come > 0 && b.threads != threads)
    fail(fmt::format("barrier {} of {} threads here and of {} elsewhere", number, threads, b.threads), site);
  b.threads = threads;
  const unsigned long own = b.passed;
  if (++b.come == threads) {
    b.come = 0;
    ++b.passed;
    return;
  }
  wait_until([&] { return b.passed != own; },
             [&] { return fmt::format("barrier {}, where {} of {} have come", number, b.come, b.threads); },
             site);
}

void set_registers(int count, bool more, Site site) {
  if (count < 24 || count > kMostRegisters || count % kUnit != 0)
    fail(fmt::format("setmaxnreg of {}: multiples of 8 from 24 to 256", count), site);
  Registers& registers = of_block<Registers>();
  const int group = own_group();
  const auto own = [&] { return registers.of_group(group); };
  if (more ? count < own() : count > own())
    fail(fmt::format("setmaxnreg.{} from {} registers to {}", more ? "inc" : "dec", own(), count), site);
  group_collective(
      nullptr, [&](void* const*) { registers.wanted[group] = count; }, site);
  wait_until([&] { return registers.grant(group); },
             [&] {
               return fmt::format("setmaxnreg from {} registers to {}, with {} free", own(), count,
                                  registers.free());
             },
             site);
}

}  // namespace titan::cuda::host
