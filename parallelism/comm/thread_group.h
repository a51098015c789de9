// What the threads of one communicator share: a barrier, a blackboard of addresses and a mailbox for each
// pair.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <vector>

namespace titan {

class ThreadGroup {
 public:
  explicit ThreadGroup(int size) : addresses_(size), mail_(static_cast<std::size_t>(size) * size) {}

  int size() const { return static_cast<int>(addresses_.size()); }

  /// Publishes `mine` and returns every rank's address once all have called. Throws CommunicationError after
  /// abort.
  std::vector<const void*> meet(int rank, const void* mine);

  struct Message {
    const void* data;
    std::int64_t bytes;
    bool taken = false;
  };
  /// Puts a message into the mailbox from → to; it stays the sender's until wait_taken returns.
  void post(int from, int to, Message& message);
  /// Copies the oldest message of from → to, waiting for it. Throws CommunicationError when its size differs.
  void receive(int from, int to, void* data, std::int64_t bytes);
  void wait_taken(const Message& message);

  void abort() noexcept;

 private:
  std::deque<Message*>& mailbox(int from, int to) {
    return mail_[static_cast<std::size_t>(from) * size() + to];
  }
  template <class Condition>
  void wait(std::unique_lock<std::mutex>& lock, Condition condition);

  std::mutex mutex_;
  std::condition_variable changed_;
  bool aborted_ = false;
  std::vector<const void*> addresses_;
  std::vector<const void*> met_;  ///< the addresses of the last complete meeting
  int arrived_ = 0;
  std::int64_t meetings_ = 0;
  std::vector<std::deque<Message*>> mail_;
};

}  // namespace titan
