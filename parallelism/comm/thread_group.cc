#include "parallelism/comm/thread_group.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "kernels/op/communicator.h"

namespace titan {

template <class Condition>
void ThreadGroup::wait(std::unique_lock<std::mutex>& lock, Condition condition) {
  changed_.wait(lock, [&] { return aborted_ || condition(); });
  if (aborted_) throw CommunicationError("communication aborted: another rank has failed");
}

std::vector<const void*> ThreadGroup::meet(int rank, const void* mine) {
  std::unique_lock lock(mutex_);
  wait(lock, [] { return true; });
  addresses_[rank] = mine;
  if (++arrived_ == size()) {
    arrived_ = 0;
    met_ = addresses_;
    ++meetings_;
    changed_.notify_all();
    return met_;
  }
  // met_ stays as it is until this rank has arrived at the next meeting.
  wait(lock, [this, before = meetings_] { return meetings_ != before; });
  return met_;
}

void ThreadGroup::post(int from, int to, Message& message) {
  const std::lock_guard lock(mutex_);
  mailbox(from, to).push_back(&message);
  changed_.notify_all();
}

void ThreadGroup::receive(int from, int to, void* data, std::int64_t bytes) {
  std::unique_lock lock(mutex_);
  std::deque<Message*>& box = mailbox(from, to);
  wait(lock, [&] { return !box.empty(); });
  Message& message = *box.front();
  if (message.bytes != bytes)
    throw CommunicationError(fmt::format("rank {} receives {} bytes from rank {}, which sends {}", to, bytes,
                                         from, message.bytes));
  box.pop_front();
  if (bytes > 0)
    std::memcpy(data, message.data, bytes);  // under the lock: the sender may not leave meanwhile
  message.taken = true;
  changed_.notify_all();
}

void ThreadGroup::wait_taken(const Message& message) {
  std::unique_lock lock(mutex_);
  wait(lock, [&] { return message.taken; });
}

void ThreadGroup::abort() noexcept {
  const std::lock_guard lock(mutex_);
  aborted_ = true;
  for (std::deque<Message*>& box : mail_) box.clear();
  changed_.notify_all();
}

}  // namespace titan
