#include "parallelism/comm/thread_communicator.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <tuple>

#include "kernels/base/error.h"
#include "parallelism/comm/reduce.h"
#include "parallelism/comm/thread_group.h"

namespace titan {
namespace {

std::byte* offset(void* p, std::int64_t bytes) { return static_cast<std::byte*>(p) + bytes; }
const std::byte* offset(const void* p, std::int64_t bytes) {
  return static_cast<const std::byte*>(p) + bytes;
}

/// Every call that reads other ranks' memory ends with a meeting: nobody leaves while he is read.
class ThreadCommunicator : public Communicator {
 public:
  ThreadCommunicator(ThreadGroup& group, int rank) : group_(group), rank_(rank) {}
  int rank() const override { return rank_; }
  int size() const override { return group_.size(); }

  void all_gather(const void* shard, void* full, std::int64_t bytes, void*) override {
    const auto shards = group_.meet(rank_, shard);
    for (int r = 0; r < size(); ++r)
      if (std::byte* to = offset(full, r * bytes); to != shards[r] && bytes > 0)
        std::memcpy(to, shards[r], bytes);
    leave();
  }

  void reduce_scatter(const void* full, DType full_dtype, void* shard, DType shard_dtype, std::int64_t count,
                      bool add, void*) override {
    auto parts = group_.meet(rank_, full);
    for (const void*& part : parts) part = offset(part, rank_ * count * size_of(full_dtype));
    reduce(parts, full_dtype, shard, shard_dtype, count, Reduction::sum, add);
    leave();
  }

  /// Reduce-scatter into a slice of one's own, then all-gather: y may be x.
  void all_reduce(const void* x, void* y, DType dtype, std::int64_t count, Reduction reduction,
                  void*) override {
    const auto begin = [&](int r) { return count * r / size(); };
    const std::int64_t first = begin(rank_), length = begin(rank_ + 1) - first;
    slice_.resize(length * size_of(dtype));
    auto parts = group_.meet(rank_, x);
    for (const void*& part : parts) part = offset(part, first * size_of(dtype));
    reduce(parts, dtype, slice_.data(), dtype, length, reduction, false);
    const auto slices = group_.meet(rank_, slice_.data());
    for (int r = 0; r < size(); ++r)
      if (const std::int64_t bytes = (begin(r + 1) - begin(r)) * size_of(dtype); bytes > 0)
        std::memcpy(offset(y, begin(r) * size_of(dtype)), slices[r], bytes);
    leave();
  }

  void exchange(std::span<const SendBuffer> sends, std::span<const RecvBuffer> recvs, void*) override {
    std::vector<ThreadGroup::Message> messages;
    messages.reserve(sends.size());  // posted by address
    for (const SendBuffer& send : sends)
      group_.post(rank_, send.peer, messages.emplace_back(ThreadGroup::Message{send.data, send.bytes}));
    try {
      for (const RecvBuffer& recv : recvs) group_.receive(recv.peer, rank_, recv.data, recv.bytes);
      for (const ThreadGroup::Message& message : messages) group_.wait_taken(message);
    } catch (...) {
      group_.abort();  // takes the messages back before their memory goes
      throw;
    }
  }

  void abort() noexcept override { group_.abort(); }

 private:
  void leave() { group_.meet(rank_, nullptr); }

  ThreadGroup& group_;
  int rank_;
  std::vector<std::byte> slice_;
};

}  // namespace

struct ThreadWorld::State {
  using Key = std::tuple<Axis, int, std::vector<int>>;  ///< axis, lane, world ranks

  explicit State(int ranks) : size(ranks) {}

  ThreadGroup& group(Axis axis, int lane, const std::vector<int>& ranks) {
    const std::lock_guard lock(mutex);
    std::unique_ptr<ThreadGroup>& group = groups[{axis, lane, ranks}];
    if (!group) {
      group = std::make_unique<ThreadGroup>(static_cast<int>(ranks.size()));
      if (aborted) group->abort();
    }
    return *group;
  }

  int size;
  std::mutex mutex;
  bool aborted = false;
  std::map<Key, std::unique_ptr<ThreadGroup>> groups;
};

class ThreadWorld::Set : public CommunicatorSet {
 public:
  Set(ThreadWorld& world, int rank, std::span<const AxisGroup> groups) : world_(world), rank_(rank) {
    for (const AxisGroup& group : groups) ranks_[group.axis] = group.ranks;
  }

  Communicator& get(Axis axis, int lane) override {
    const std::lock_guard lock(mutex_);
    std::unique_ptr<Communicator>& communicator = communicators_[{axis, lane}];
    if (!communicator) {
      const auto found = ranks_.find(axis);
      const std::vector<int> ranks = found == ranks_.end() ? std::vector<int>{rank_} : found->second;
      const auto me = std::find(ranks.begin(), ranks.end(), rank_);
      TITAN_CHECK(me != ranks.end(), "rank {} is not in its group of axis {}", rank_, to_string(axis));
      communicator = std::make_unique<ThreadCommunicator>(world_.state_->group(axis, lane, ranks),
                                                          static_cast<int>(me - ranks.begin()));
    }
    return *communicator;
  }

  void abort_all() noexcept override { world_.abort(); }

 private:
  ThreadWorld& world_;
  int rank_;
  std::map<Axis, std::vector<int>> ranks_;
  std::mutex mutex_;  ///< lanes ask from their threads
  std::map<std::pair<Axis, int>, std::unique_ptr<Communicator>> communicators_;
};

ThreadWorld::ThreadWorld(int ranks) : state_(std::make_unique<State>(ranks)) {}
ThreadWorld::~ThreadWorld() = default;

int ThreadWorld::size() const { return state_->size; }

std::unique_ptr<CommunicatorSet> ThreadWorld::communicators(int rank, std::span<const AxisGroup> groups) {
  TITAN_CHECK(rank >= 0 && rank < size(), "rank {} of {}", rank, size());
  return std::make_unique<Set>(*this, rank, groups);
}

void ThreadWorld::abort() noexcept {
  const std::lock_guard lock(state_->mutex);
  state_->aborted = true;
  for (const auto& [key, group] : state_->groups) group->abort();
}

}  // namespace titan
