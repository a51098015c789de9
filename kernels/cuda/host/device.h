// The host's CUDA device: its streams, events, graphs and memory. The functions of cuda_runtime.h are thin
// wrappers around it (memory.cc, streams.cc, graphs.cc).
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "kernels/cuda/host/streams.h"

/// An operation of a graph, and the operations that must have finished before.
struct TitanGraphNode {
  std::function<void()> body;
  std::vector<int> after;
};
struct CUgraph_st {
  std::vector<TitanGraphNode> nodes;
};
struct CUgraphExec_st {
  CUgraph_st graph;
};

namespace titan::cuda::host {

/// Streams between cudaStreamBeginCapture and cudaStreamEndCapture: what is enqueued goes into `graph`.
struct Capture {
  cudaStream_t origin;
  CUgraph_st graph;
};

/// One operation of a stream: it runs `body`, or reaches an event, or waits for one.
struct Task {
  std::uint64_t number;  ///< counts all tasks of the device
  std::function<void()> body;
  cudaEvent_t record = nullptr, wait = nullptr;
  std::uint64_t ticket = 0;  ///< which recording of the event
};

}  // namespace titan::cuda::host

struct CUstream_st {
  std::deque<titan::cuda::host::Task> tasks;
  std::shared_ptr<titan::cuda::host::Capture> capture;
  std::vector<int> frontier;  ///< while capturing: nodes that the next one comes after
};
struct CUevent_st {
  std::uint64_t recorded = 0, reached = 0;  ///< recordings enqueued; and run
  cudaStream_t stream = nullptr;            ///< of the last recording
  double seconds = 0;                       ///< when it was reached
  std::shared_ptr<titan::cuda::host::Capture> capture;
  std::vector<int> frontier;
};

namespace titan::cuda::host {

class Device {
 public:
  static Device& get();

  /// Of everything here; bodies run while it is held.
  std::recursive_mutex mutex;

  CUstream_st* stream(cudaStream_t s) { return s != nullptr ? s : &default_stream_; }
  std::set<cudaStream_t> streams;
  std::set<cudaEvent_t> events;

  bool known(cudaStream_t s) const { return s == nullptr || streams.contains(s); }
  bool known(cudaEvent_t e) const { return events.contains(e); }

  void enqueue(cudaStream_t s, Task task);
  /// Runs tasks until `done`. `wanted`: the stream that is waited for, null for all.
  void run_until(const std::function<bool()>& done, CUstream_st* wanted);
  /// Runs a graph's nodes in an order that its edges allow.
  void run_graph(const CUgraph_st& graph);
  bool idle() const;

  StreamOrder order = StreamOrder::enqueued;
  std::mt19937_64 random;

  cudaError_t sticky = cudaSuccess, last = cudaSuccess;
  std::string sticky_message;

  /// base -> bytes, of each kind of memory.
  std::map<const std::byte*, std::size_t> device_blocks, host_blocks;
  std::size_t device_capacity = std::size_t{8} << 30, device_used = 0;

 private:
  void run_head(CUstream_st* s);
  bool runnable(const CUstream_st* s) const;
  CUstream_st* choose(CUstream_st* wanted);
  std::vector<CUstream_st*> runnable_streams();

  CUstream_st default_stream_;
  std::uint64_t next_task_ = 0;
};

/// The sticky error, if there is one; otherwise `error`, which becomes the last error.
cudaError_t result(cudaError_t error);

}  // namespace titan::cuda::host
