// A grid of CUDA threads on the host: every thread of a block is a fiber, blocks run on the processors.
//
// It shows what a GPU hides. Threads of a block run in the order of a schedule, each until it must wait, so a
// missing barrier gives wrong numbers in one of the orders. Shared memory is NaN when a block starts, each
// array in memory of its own that AddressSanitizer watches. Divergent barriers, collectives that wait for
// lanes that have left, vector accesses that are not aligned and launches that no GPU takes are KernelErrors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <source_location>
#include <stdexcept>
#include <string>
#include <typeinfo>

#include "kernels/base/function_ref.h"
#include "kernels/cuda/host/async_copies.h"

namespace titan::cuda::host {

/// A mistake in a kernel or its launch: what, where in the source, which block and threads.
class KernelError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct Dim3 {
  unsigned x = 1, y = 1, z = 1;
  Dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}  // NOLINT: as CUDA's
  std::int64_t count() const { return std::int64_t{x} * y * z; }
};

/// In which order the ready threads of a block get their turn, and blocks theirs. A correct kernel gives the
/// same bits in all.
enum class Order { forward, reverse, random };
struct Schedule {
  Order order = Order::forward;
  std::uint64_t seed = 0;
};
/// For all launches from now on.
void set_schedule(Schedule schedule);

/// The dynamic shared memory of a launch, and how much of it cudaFuncSetAttribute has allowed the kernel.
struct SharedRequest {
  std::size_t bytes = 0, asked = 0;
};
/// What the kernel has asked for with cudaFuncSetAttribute.
std::size_t asked_shared(const void* kernel);

/// Runs kernel() once for every thread of the grid; returns when all have finished. Throws the first
/// KernelError (or whatever a thread threw).
void launch(Dim3 grid, Dim3 block, SharedRequest shared, FunctionRef<void()> kernel);

inline constexpr std::int64_t kMaxBlockThreads = 1024, kMaxGridX = 0x7fffffff, kMaxGridYZ = 65535;
/// Of a block that has not asked for more, static and dynamic together.
inline constexpr std::size_t kUnaskedShared = 48 << 10;
inline constexpr int kWarp = 32, kWarpGroup = 128;

// --- In a kernel
// -----------------------------------------------------------------------------------------------

using Site = std::source_location;

Dim3 thread_index();
Dim3 block_index();
Dim3 block_size();
Dim3 grid_size();
/// Position in the warp: threads are numbered with x fastest.
int lane();

/// Waits for all threads of the block that have not ended. They must all be at this place in the source.
void barrier(Site site = Site::current());

/// Exchanges `bytes` <= 16 of each lane in `mask`, which must all come here: `all` [32][16] gets those of
/// every lane in the mask.
void exchange(std::uint32_t mask, const void* value, std::size_t bytes, std::byte (*all)[16],
              Site site = Site::current());

/// What all lanes of `mask` do together: when each has come here, `act` runs once, in one of them, on what
/// they brought (null for lanes outside the mask). What they brought may be on their stacks.
void collective(std::uint32_t mask, void* brought, FunctionRef<void(void* const* lanes)> act,
                Site site = Site::current());

/// The same of the current thread's warp group, 128 threads: all of them, at one place in the source.
void group_collective(void* brought, FunctionRef<void(void* const* threads)> act,
                      Site site = Site::current());

/// Waits until condition() holds, which other threads or background work make true. `what` it waits for is
/// told when that never happens.
void wait_until(FunctionRef<bool()> condition, FunctionRef<std::string()> what, Site site = Site::current());

/// Work that goes on beside the threads of the block, as the copies of TMA do: done at once in reverse order,
/// now or later in random order, and in forward order only when all threads wait.
void begin_background(std::function<void()> work);

/// The block's object of a kind: made when first asked for, gone with the block.
std::shared_ptr<void>& block_slot(const std::type_info& kind);
template <class T>
T& of_block() {
  std::shared_ptr<void>& slot = block_slot(typeid(T));
  if (slot == nullptr) slot = std::make_shared<T>();
  return *static_cast<T*>(slot.get());
}

/// Throws a KernelError that names the block and the thread.
[[noreturn]] void fail(const std::string& what, Site site);

/// Where p is in the block's dynamic shared memory, as 18-bit addresses in descriptors have it; and back.
std::uint32_t shared_offset(const void* p, Site site);
std::byte* shared_at(std::uint32_t offset, std::size_t bytes, Site site);

/// Copies from global to shared memory that the current thread has begun and not yet waited for.
AsyncCopies& async_copies();

/// The block's shared array of this place in the source, aligned to 16 bytes and no more.
void* shared_array(std::size_t bytes, Site site = Site::current());
/// The shared memory that the launch asked for, aligned to 16 bytes and no more.
void* dynamic_shared();

/// Throws unless p is a multiple of `alignment`.
void check_aligned(const void* p, std::size_t alignment, Site site = Site::current());

}  // namespace titan::cuda::host
