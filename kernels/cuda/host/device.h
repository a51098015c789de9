// The host's CUDA device: its streams, events, graphs and memory. The functions of cuda_runtime.h are thin
// wrappers around it (*_functions.cc).
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
#include <thread>
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

namespace titan::cuda::host {

/// One cudaEventRecord. Later recordings of the event do not change what waits for this one.
struct Recording {
  cudaStream_t stream;
  bool reached = false;
  double seconds = 0;  ///< when it was reached
};
using RecordingPtr = std::shared_ptr<Recording>;

/// Streams between cudaStreamBeginCapture and cudaStreamEndCapture: what is enqueued goes into `graph`.
struct Capture {
  cudaStream_t origin;
  cudaStreamCaptureMode mode;
  std::thread::id thread;  ///< that began it
  CUgraph_st graph;
  bool invalid = false, ended = false;
};
using CapturePtr = std::shared_ptr<Capture>;

/// One operation of a stream: it runs `body`, or reaches an event, or waits for one.
struct Task {
  std::uint64_t number = 0;  ///< counts all tasks of the device
  std::function<void()> body = {};
  RecordingPtr record = {}, wait = {};
};

}  // namespace titan::cuda::host

struct CUstream_st {
  int device = 0;
  std::deque<titan::cuda::host::Task> tasks = {};
  titan::cuda::host::CapturePtr capture = {};
  std::vector<int> frontier = {};  ///< while capturing: nodes that the next one comes after
};
struct CUevent_st {
  bool timed = true;
  titan::cuda::host::RecordingPtr recording = {};  ///< the last one; null before the first
  titan::cuda::host::CapturePtr capture = {};      ///< that the last record was in
  std::vector<int> frontier = {};
};
struct CUgraphExec_st {
  std::shared_ptr<const CUgraph_st> graph;
  std::size_t bytes = 0;  ///< of device memory
  titan::cuda::host::RecordingPtr last_launch;
};

namespace titan::cuda::host {

/// Objects of one kind by their handles. Destroyed ones keep their addresses, so that a dead handle is never
/// taken for a new object's; work that is still to run may refer to them.
template <class T>
class Handles {
 public:
  T* make(T object) {
    all_.push_back(std::make_unique<T>(std::move(object)));
    return *live_.insert(all_.back().get()).first;
  }
  bool known(const T* handle) const { return live_.contains(const_cast<T*>(handle)); }
  void destroy(T* handle) { live_.erase(handle); }
  const std::set<T*>& live() const { return live_; }
  const std::vector<std::unique_ptr<T>>& all() const { return all_; }

 private:
  std::vector<std::unique_ptr<T>> all_;
  std::set<T*> live_;
};

class Device {
 public:
  static Device& get();

  /// Of everything here; bodies run while it is held.
  std::recursive_mutex mutex;

  Handles<CUstream_st> streams;
  Handles<CUevent_st> events;
  Handles<CUgraph_st> graphs;
  Handles<CUgraphExec_st> execs;

  CUstream_st* stream(cudaStream_t s) { return s != nullptr ? s : &default_stream_; }
  bool known(cudaStream_t s) const { return s == nullptr || streams.known(s); }
  /// cudaSuccess, or why nothing may be put into the stream.
  cudaError_t usable(cudaStream_t s);

  void enqueue(cudaStream_t s, Task task);
  /// Runs tasks until `done`. `wanted`: the stream that is waited for, null for all.
  void run_until(const std::function<bool()>& done, CUstream_st* wanted);
  /// Runs one task, if any can run.
  bool step(CUstream_st* wanted);
  void drain();
  bool idle() const;
  /// Runs a graph's nodes in an order that its edges allow.
  void run_graph(const CUgraph_st& graph);

  /// cudaSuccess, or why this thread may neither wait, nor query, nor allocate: a capture forbids it, and is
  /// invalid from now on.
  cudaError_t refuse_in_capture();
  /// The same where a capture of any mode and thread forbids it.
  cudaError_t refuse_in_any_capture();

  /// All work that has not run is forgotten, and errors.
  void reset();

  StreamOrder order = StreamOrder::enqueued;
  std::mt19937_64 random;

  cudaError_t sticky = cudaSuccess, last = cudaSuccess;
  std::string sticky_message;
  bool in_host_function = false;
  void fail(cudaError_t error, std::string message);

  /// base -> bytes, of each kind of memory.
  std::map<const std::byte*, std::size_t> device_blocks, host_blocks;
  std::size_t device_capacity = std::size_t{8} << 30, device_used = 0;
  bool has_room(std::size_t bytes) const {
    return bytes <= device_capacity && device_used <= device_capacity - bytes;
  }

  Hardware hardware;
  std::set<int> contexts;                           ///< devices
  std::map<const void*, std::size_t> asked_shared;  ///< by kernel

 private:
  void run_head(CUstream_st* s);
  CUstream_st* choose(CUstream_st* wanted);
  CUstream_st* blocking(CUstream_st* wanted);
  std::vector<CUstream_st*> runnable_streams();
  template <class Forbids>
  cudaError_t invalidate(Forbids forbids);

  CUstream_st default_stream_;
  std::uint64_t next_task_ = 0;
};

/// Of copies and fills of rows, in bytes.
inline constexpr std::size_t kMaxPitch = 0x7fffffff;

/// The device that this thread has chosen; the first one unless it has.
int& current_device();
/// Shared memory that a block may have on this hardware, when asked for.
std::size_t max_shared();
/// The current device's context is made, where there is none yet. An error where there is no device.
cudaError_t enter_device();

/// The sticky error, if there is one; otherwise `error`, which becomes the last error.
cudaError_t result(cudaError_t error);

using Lock = std::lock_guard<std::recursive_mutex>;

}  // namespace titan::cuda::host
