// Communicator: collectives between the ranks of one mesh axis. Implemented in parallelism/comm, used by
// backends. Data pointers are in the backend's memory; `stream` is the lane's stream on an asynchronous
// backend, null on the host. Every rank of the axis makes the same calls in the same order. Errors: a failed
// or aborted call throws CommunicationError.
#pragma once

#include <cstdint>
#include <span>
#include <stdexcept>

#include "kernels/base/dtype.h"
#include "kernels/op/axis.h"

namespace titan {

class CommunicationError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct SendBuffer {
  const void* data;
  std::int64_t bytes;
  int peer;
};
struct RecvBuffer {
  void* data;
  std::int64_t bytes;
  int peer;
};

class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// full[r] = rank r's shard; `bytes` per rank.
  virtual void all_gather(const void* shard, void* full, std::int64_t bytes, void* stream) = 0;
  /// shard = Σ_r full_r[rank()], `count` elements per rank, f32 sums in rank order, rounded once; `add` adds
  /// onto an f32 shard.
  virtual void reduce_scatter(const void* full, DType full_dtype, void* shard, DType shard_dtype,
                              std::int64_t count, bool add, void* stream) = 0;
  virtual void all_reduce(const void* x, void* y, DType dtype, std::int64_t count, Reduction reduction,
                          void* stream) = 0;
  /// All sends and receives in flight together.
  virtual void exchange(std::span<const SendBuffer> sends, std::span<const RecvBuffer> recvs,
                        void* stream) = 0;
  /// Wakes every rank that waits in a call; all calls from now on throw.
  virtual void abort() noexcept = 0;
};

/// The communicators of one rank: one per (axis, lane).
class CommunicatorSet {
 public:
  virtual ~CommunicatorSet() = default;
  virtual Communicator& get(Axis axis, int lane) = 0;
  virtual void abort_all() noexcept = 0;
};

}  // namespace titan
