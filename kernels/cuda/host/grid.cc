#include "kernels/cuda/host/grid.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <typeindex>
#include <utility>
#include <vector>

#include "kernels/cuda/host/device.h"
#include "kernels/cuda/host/fiber.h"
#include "kernels/cuda/host/shared_memory.h"

namespace titan::cuda::host {
namespace {

Schedule g_schedule;  ///< set by tests between launches

enum class State : std::uint8_t { ready, at_barrier, in_warp, in_group, waiting, done };

struct Thread {
  Fiber fiber;
  State state = State::done;
  Dim3 index;
  Site site;               ///< where it waits
  std::uint32_t mask = 0;  ///< of the collective it waits in
  void* brought = nullptr;
  std::optional<FunctionRef<bool()>> condition;  ///< of one that is waiting, and what for
  std::optional<FunctionRef<std::string()>> what;
  AsyncCopies copies;
};

std::string place(const Site& site) { return fmt::format("{}:{}", site.file_name(), site.line()); }
bool same(const Site& a, const Site& b) {
  return a.line() == b.line() && a.column() == b.column() &&
         (a.file_name() == b.file_name() || std::strcmp(a.file_name(), b.file_name()) == 0);
}

struct SharedArray {
  Site site;
  std::size_t bytes;
  SharedMemory memory;
};

/// One block, run by one operating-system thread; kept for the next one.
class Block {
 public:
  void run(Dim3 grid, Dim3 size, Dim3 index, SharedRequest dynamic, FunctionRef<void()> kernel,
           std::mt19937_64& random);

  Dim3 grid, size, index;
  Thread& current() { return *threads_[static_cast<std::size_t>(current_)]; }
  int current_number() const { return current_; }
  Thread& thread(int number) { return *threads_[static_cast<std::size_t>(number)]; }
  const Thread& thread(int number) const { return *threads_[static_cast<std::size_t>(number)]; }
  int count() const { return count_; }
  void wait(State state) {
    current().state = state;
    current().fiber.yield();
  }
  bool all_have_come() const;
  /// Of the current thread's warp: the lanes that wait in a collective.
  std::uint32_t& waiting() { return waiting_[static_cast<std::size_t>(current_ / kWarp)]; }
  void* shared_array(std::size_t bytes, const Site& site);
  std::byte* dynamic() const { return dynamic_.get(); }
  std::size_t dynamic_bytes() const { return request_.bytes; }
  std::shared_ptr<void>& slot(const std::type_info& kind) { return slots_[kind]; }
  void begin(std::function<void()> work);
  /// Of the current thread's warp group: how many have come to a collective.
  int& come() { return come_[static_cast<std::size_t>(current_ / kWarpGroup)]; }
  [[noreturn]] void fail(const std::string& what) const {
    throw KernelError(fmt::format("{} (block {},{},{}; thread {} of {})", what, index.x, index.y, index.z,
                                  current_, count_));
  }

 private:
  void start(FunctionRef<void()> kernel);
  bool give_turns(const std::vector<int>& turns);
  bool give_turn(int number);
  bool finish_background(std::size_t which);
  bool release_barrier();
  void check_warps();
  [[noreturn]] void report_deadlock() const;

  int count_ = 0, current_ = 0;
  std::vector<std::unique_ptr<Thread>> threads_;
  std::vector<std::unique_ptr<FiberStack>> stacks_;
  std::vector<std::uint32_t> waiting_;  ///< by warp
  std::vector<int> come_;               ///< by warp group
  std::vector<std::function<void()>> background_;
  std::map<std::type_index, std::shared_ptr<void>> slots_;
  std::vector<SharedArray> shared_;
  std::size_t static_bytes_ = 0;
  SharedRequest request_;
  SharedMemory dynamic_;
};

thread_local Block* t_block = nullptr;

Block& block() {
  if (t_block == nullptr) throw KernelError("a device function was called outside a kernel");
  return *t_block;
}

void Block::start(FunctionRef<void()> kernel) {
  while (static_cast<int>(threads_.size()) < count_) {
    threads_.push_back(std::make_unique<Thread>());
    stacks_.push_back(std::make_unique<FiberStack>());
  }
  waiting_.assign(static_cast<std::size_t>((count_ + kWarp - 1) / kWarp), 0);
  come_.assign(static_cast<std::size_t>((count_ + kWarpGroup - 1) / kWarpGroup), 0);
  background_.clear();
  slots_.clear();
  for (int i = 0; i < count_; ++i) {
    Thread& t = thread(i);
    const auto n = static_cast<unsigned>(i);
    t.index = Dim3(n % size.x, n / size.x % size.y, n / (size.x * size.y));
    t.state = State::ready;
    t.copies = {};
    t.fiber.start(*stacks_[static_cast<std::size_t>(i)], kernel);
  }
}

void Block::run(Dim3 grid_, Dim3 size_, Dim3 index_, SharedRequest dynamic, FunctionRef<void()> kernel,
                std::mt19937_64& random) {
  grid = grid_, size = size_, index = index_;
  count_ = static_cast<int>(size.count());
  shared_.clear();
  static_bytes_ = 0;
  request_ = dynamic;
  dynamic_ = SharedMemory(dynamic.bytes);
  std::vector<int> turns(static_cast<std::size_t>(count_));
  std::iota(turns.begin(), turns.end(), 0);
  if (g_schedule.order == Order::reverse) std::reverse(turns.begin(), turns.end());
  start(kernel);
  for (;;) {
    bool progress = false, all_done = true;
    if (g_schedule.order == Order::random) {
      std::shuffle(turns.begin(), turns.end(), random);
      if (random() % 2 == 0) progress = finish_background(random());
    }
    progress = give_turns(turns) || progress;
    for (int i = 0; i < count_; ++i) all_done = all_done && thread(i).state == State::done;
    if (all_done && !background_.empty()) fail("the block ended while copies were on their way");
    if (all_done) return;
    if (progress || finish_background(0)) continue;
    check_warps();
    if (!release_barrier()) report_deadlock();
  }
}

/// Threads of one warp that have their turns after each other go on until all of them must wait: nothing
/// keeps a warp from running far ahead of the others.
bool Block::give_turns(const std::vector<int>& turns) {
  bool progress = false;
  for (std::size_t begin = 0, end = 0; begin < turns.size(); begin = end) {
    while (end < turns.size() && turns[end] / kWarp == turns[begin] / kWarp) ++end;
    for (bool again = true; again; progress = progress || again) {
      again = false;
      for (std::size_t i = begin; i < end; ++i) again = give_turn(turns[i]) || again;
    }
  }
  return progress;
}

/// False when the thread can do nothing.
bool Block::give_turn(int number) {
  Thread& t = thread(number);
  current_ = number;
  if (t.state == State::waiting && (*t.condition)()) t.state = State::ready;
  if (t.state != State::ready) return false;
  t.fiber.resume();
  if (t.fiber.done()) t.state = State::done;
  return true;
}

void Block::begin(std::function<void()> work) {
  if (g_schedule.order == Order::reverse)
    work();
  else
    background_.push_back(std::move(work));
}

bool Block::finish_background(std::size_t which) {
  if (background_.empty()) return false;
  const auto at = background_.begin() + static_cast<std::ptrdiff_t>(which % background_.size());
  const std::function<void()> work = std::move(*at);
  background_.erase(at);
  work();
  return true;
}

/// All threads that have not ended are at one barrier.
bool Block::release_barrier() {
  const Thread* first = nullptr;
  for (int i = 0; i < count_; ++i) {
    const Thread& t = thread(i);
    if (t.state == State::done) continue;
    if (t.state != State::at_barrier) return false;
    if (first == nullptr) first = &t;
    if (!same(first->site, t.site)) {
      current_ = i;
      fail(fmt::format("divergent barrier: one thread waits at {}, another at {}", place(first->site),
                       place(t.site)));
    }
  }
  for (int i = 0; i < count_; ++i)
    if (thread(i).state == State::at_barrier) thread(i).state = State::ready;
  return first != nullptr;
}

/// All lanes that the current thread's collective is for wait in it.
bool Block::all_have_come() const {
  const Thread& own = thread(current_);
  if (own.mask & ~waiting_[static_cast<std::size_t>(current_ / kWarp)]) return false;
  const int base = current_ / kWarp * kWarp;
  for (std::uint32_t left = own.mask; left != 0; left &= left - 1) {
    const int number = base + std::countr_zero(left);
    const Thread& other = thread(number);
    if (other.mask != own.mask || !same(other.site, own.site)) return false;
  }
  return true;
}

/// Nobody can go on: names a lane that another waits for in vain.
void Block::check_warps() {
  for (int i = 0; i < count_; ++i) {
    const Thread& t = thread(i);
    if (t.state != State::in_warp) continue;
    for (int lane = 0; lane < kWarp; ++lane) {
      const int other = i / kWarp * kWarp + lane;
      if ((t.mask >> lane & 1u) == 0 || (other < count_ && thread(other).state != State::done)) continue;
      current_ = i;
      fail(fmt::format("{}: lane {} is in the mask {:#010x}, but has ended or never was", place(t.site), lane,
                       t.mask));
    }
  }
}

void Block::report_deadlock() const {
  std::string waiting;
  for (int i = 0, listed = 0; i < count_ && listed < 4; ++i) {
    const Thread& t = *threads_[static_cast<std::size_t>(i)];
    if (t.state == State::done) continue;
    waiting += fmt::format("{}thread {} at {}", listed++ > 0 ? ", " : "", i, place(t.site));
    if (t.state == State::in_warp) waiting += fmt::format(" for lanes {:#010x}", t.mask);
    if (t.state == State::in_group) waiting += " for its warp group";
    if (t.state == State::waiting) waiting += " for " + (*t.what)();
  }
  fail("deadlock: " + waiting);
}

void* Block::shared_array(std::size_t bytes, const Site& site) {
  for (const SharedArray& a : shared_)
    if (same(a.site, site)) {
      if (a.bytes != bytes) fail(fmt::format("{}: a shared array of two sizes", place(site)));
      return a.memory.get();
    }
  static_bytes_ += bytes;
  const std::size_t most = max_shared(), together = static_bytes_ + request_.bytes;
  if (static_bytes_ > kUnaskedShared || together > most)
    fail(fmt::format("{}: {} bytes of static shared memory and {} of dynamic; at most {} and {} together",
                     place(site), static_bytes_, request_.bytes, kUnaskedShared, most));
  if (together > kUnaskedShared && request_.asked < request_.bytes)
    fail(
        fmt::format("{}: {} bytes of static shared memory and {} of dynamic, of which cudaFuncSetAttribute "
                    "was asked for {}: more than {} together must be asked for",
                    place(site), static_bytes_, request_.bytes, request_.asked, kUnaskedShared));
  return shared_.emplace_back(SharedArray{site, bytes, SharedMemory(bytes)}).memory.get();
}

void check_launch(Dim3 grid, Dim3 block, SharedRequest shared) {
  const auto refuse = [&](const std::string& what) {
    throw KernelError(fmt::format("launch of grid {},{},{} of blocks {},{},{}: {}", grid.x, grid.y, grid.z,
                                  block.x, block.y, block.z, what));
  };
  if (grid.count() == 0 || block.count() == 0) refuse("nothing to launch");
  if (block.count() > kMaxBlockThreads || block.x > 1024 || block.y > 1024 || block.z > 64)
    refuse(fmt::format("a block has at most {} threads, 64 in z", kMaxBlockThreads));
  if (grid.x > kMaxGridX || grid.y > kMaxGridYZ || grid.z > kMaxGridYZ)
    refuse(fmt::format("a grid has at most {} blocks in x, {} in y and z", kMaxGridX, kMaxGridYZ));
  const std::size_t most = std::max(kUnaskedShared, shared.asked);
  if (shared.bytes > most || shared.bytes > max_shared())
    refuse(fmt::format("{} bytes of shared memory, {} asked for, at most {}", shared.bytes, shared.asked,
                       max_shared()));
}

}  // namespace

void set_schedule(Schedule schedule) { g_schedule = schedule; }

void launch(Dim3 grid, Dim3 size, SharedRequest shared, FunctionRef<void()> kernel) {
  check_launch(grid, size, shared);
  const std::int64_t blocks = grid.count();
  std::atomic<bool> failed{false};
  std::exception_ptr error;
  std::mutex mutex;
#pragma omp parallel for schedule(dynamic, 1) if (blocks > 1)
  for (std::int64_t turn = 0; turn < blocks; ++turn) {
    if (failed) continue;
    static thread_local std::unique_ptr<Block> kept;
    if (kept == nullptr) kept = std::make_unique<Block>();
    const std::int64_t b = g_schedule.order == Order::forward ? turn : blocks - 1 - turn;
    std::mt19937_64 random(g_schedule.seed + static_cast<std::uint64_t>(b) * 0x9e3779b97f4a7c15u);
    t_block = kept.get();
    try {
      kept->run(grid, size,
                Dim3(static_cast<unsigned>(b % grid.x), static_cast<unsigned>(b / grid.x % grid.y),
                     static_cast<unsigned>(b / grid.x / grid.y)),
                shared, kernel, random);
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (!failed.exchange(true)) error = std::current_exception();
      kept.reset();  // fibers that stopped in the middle go with their stacks
    }
    t_block = nullptr;
  }
  if (error) std::rethrow_exception(error);
}

Dim3 thread_index() { return block().current().index; }
Dim3 block_index() { return block().index; }
Dim3 block_size() { return block().size; }
Dim3 grid_size() { return block().grid; }
int lane() { return block().current_number() % kWarp; }

void barrier(Site site) {
  block().current().site = site;
  block().wait(State::at_barrier);
}

void collective(std::uint32_t mask, void* brought, FunctionRef<void(void* const*)> act, Site site) {
  Block& b = block();
  Thread& own = b.current();
  const int number = b.current_number(), base = number / kWarp * kWarp;
  if ((mask >> (number - base) & 1u) == 0)
    b.fail(fmt::format("{}: a lane calls with a mask {:#010x} that lacks it", place(site), mask));
  own.mask = mask;
  own.site = site;
  own.brought = brought;
  b.waiting() |= 1u << (number - base);
  if (!b.all_have_come()) return b.wait(State::in_warp);
  b.waiting() &= ~mask;
  void* lanes[kWarp] = {};
  for (std::uint32_t left = mask; left != 0; left &= left - 1) {
    const int lane = std::countr_zero(left);
    lanes[lane] = b.thread(base + lane).brought;
    b.thread(base + lane).state = State::ready;
  }
  act(lanes);
}

void group_collective(void* brought, FunctionRef<void(void* const*)> act, Site site) {
  Block& b = block();
  if (b.count() % kWarpGroup != 0)
    fail(fmt::format("a block of {} threads has no warp groups", b.count()), site);
  Thread& own = b.current();
  own.site = site;
  own.brought = brought;
  if (++b.come() < kWarpGroup) return b.wait(State::in_group);
  b.come() = 0;
  const int base = b.current_number() / kWarpGroup * kWarpGroup;
  void* threads[kWarpGroup];
  for (int i = 0; i < kWarpGroup; ++i) {
    Thread& t = b.thread(base + i);
    if (!same(t.site, site))
      fail(fmt::format("threads of a warp group are at different places: {} and {}", place(site),
                       place(t.site)),
           site);
    t.state = State::ready;
    threads[i] = t.brought;
  }
  act(threads);
}

void wait_until(FunctionRef<bool()> condition, FunctionRef<std::string()> what, Site site) {
  if (condition()) return;
  Thread& own = block().current();
  own.condition.emplace(condition);
  own.what.emplace(what);
  own.site = site;
  block().wait(State::waiting);
}

void begin_background(std::function<void()> work) { block().begin(std::move(work)); }

std::shared_ptr<void>& block_slot(const std::type_info& kind) { return block().slot(kind); }

void fail(const std::string& what, Site site) { block().fail(fmt::format("{}: {}", place(site), what)); }

namespace {

/// Offsets keep what they are multiples of, up to this.
constexpr std::uintptr_t kWindow = 1024;

}  // namespace

std::uint32_t shared_offset(const void* p, Site site) {
  const Block& b = block();
  const std::ptrdiff_t at = static_cast<const std::byte*>(p) - b.dynamic();
  if (b.dynamic() == nullptr || at < 0 || at > static_cast<std::ptrdiff_t>(b.dynamic_bytes()))
    fail(fmt::format("{} is not in dynamic shared memory", p), site);
  return static_cast<std::uint32_t>(kWindow + reinterpret_cast<std::uintptr_t>(b.dynamic()) % kWindow +
                                    static_cast<std::uintptr_t>(at));
}

std::byte* shared_at(std::uint32_t offset, std::size_t bytes, Site site) {
  const Block& b = block();
  const auto first =
      static_cast<std::uint32_t>(kWindow + reinterpret_cast<std::uintptr_t>(b.dynamic()) % kWindow);
  if (offset < first || offset - first + bytes > b.dynamic_bytes())
    fail(fmt::format("shared address {:#x} is outside of the {} bytes of dynamic shared memory", offset,
                     b.dynamic_bytes()),
         site);
  return b.dynamic() + (offset - first);
}

void exchange(std::uint32_t mask, const void* value, std::size_t bytes, std::byte (*all)[16], Site site) {
  struct Brought {
    const void* value;
    std::byte (*all)[16];
  };
  Brought own{value, all};
  const auto act = [bytes](void* const* lanes) {
    std::byte values[kWarp][16];
    for (int l = 0; l < kWarp; ++l)
      if (lanes[l] != nullptr) std::memcpy(values[l], static_cast<const Brought*>(lanes[l])->value, bytes);
    for (int l = 0; l < kWarp; ++l)
      if (lanes[l] != nullptr) std::memcpy(static_cast<const Brought*>(lanes[l])->all, values, sizeof values);
  };
  collective(mask, &own, act, site);
}

AsyncCopies& async_copies() { return block().current().copies; }

void* shared_array(std::size_t bytes, Site site) { return block().shared_array(bytes, site); }

void* dynamic_shared() { return block().dynamic(); }

void check_aligned(const void* p, std::size_t alignment, Site site) {
  if (reinterpret_cast<std::uintptr_t>(p) % alignment != 0)
    block().fail(fmt::format("{}: misaligned access: {} is no multiple of {}", place(site), p, alignment));
}

}  // namespace titan::cuda::host
