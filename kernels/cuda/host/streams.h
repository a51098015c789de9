// Streams of the host's CUDA runtime. Nothing that is put into a stream runs before somebody waits, and
// streams run against each other in the most unfavourable order that their events allow: a missing wait
// shows. A query that answers cudaErrorNotReady runs one operation, so that polling ends. A graph runs as one
// operation of its stream, its nodes in an order that their edges allow.
//
// Where CUDA leaves something open, this is the least that it promises: cudaMemcpy from pageable memory and
// cudaMemset return before the device memory is written, and destroying a stream or an event waits for
// nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include <cuda_runtime.h>

namespace titan::cuda::host {

/// Which stream goes on when several could.
enum class StreamOrder : std::uint8_t {
  enqueued,  ///< as the host enqueued them
  late,      ///< the one that is waited for; others only when it cannot go on without them
  newest,    ///< the one whose next operation was enqueued last
  random,
};
/// For all that runs from now on.
void set_stream_order(StreamOrder order, std::uint64_t seed = 0);

/// Puts `body` into the stream (null: the default one), or into the graph that it is capturing. What `body`
/// throws becomes the device's sticky error, cudaErrorLaunchFailure, whose cudaGetErrorString is its message.
void enqueue(cudaStream_t stream, std::function<void()> body);

/// Makes cudaGetLastError return `error`, once.
cudaError_t set_last_error(cudaError_t error);

/// The machine that the stand-ins play.
struct Hardware {
  int devices = 1;
  int compute_capability = 90;  ///< major · 10 + minor
  /// What the first calls answer when there is no usable driver: cudaErrorInsufficientDriver and the like.
  cudaError_t fault = cudaSuccess;
  bool has_kernels = true;      ///< the library holds code for this compute capability
  int driver_version = 13000;   ///< 0: no driver
  std::int64_t node_bytes = 0;  ///< of device memory, that an instantiated graph takes for a node
};
void set_hardware(const Hardware& hardware);
/// Devices that some call has made a context on, with the memory that takes.
int contexts();

/// Forgets all work that has not run and the sticky error. Memory and handles stay.
void reset_device();

/// How much memory cudaMalloc gives before it answers cudaErrorMemoryAllocation.
void set_device_memory(std::int64_t bytes);

/// Whether [p, p + bytes) is in one allocation of cudaMalloc.
bool in_device_memory(const void* p, std::size_t bytes);

}  // namespace titan::cuda::host
