#include "kernels/cuda/host/device.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>

namespace titan::cuda::host {
namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

Device& Device::get() {
  static Device device;
  return device;
}

void Device::enqueue(cudaStream_t s, Task task) {
  task.number = next_task_++;
  stream(s)->tasks.push_back(std::move(task));
}

bool Device::runnable(const CUstream_st* s) const {
  if (s->tasks.empty()) return false;
  const Task& head = s->tasks.front();
  return head.wait == nullptr || !known(head.wait) || head.wait->reached >= head.ticket;
}

std::vector<CUstream_st*> Device::runnable_streams() {
  std::vector<CUstream_st*> all;
  if (runnable(&default_stream_)) all.push_back(&default_stream_);
  for (const cudaStream_t s : streams)
    if (runnable(s)) all.push_back(s);
  return all;
}

bool Device::idle() const {
  return default_stream_.tasks.empty() &&
         std::all_of(streams.begin(), streams.end(), [](cudaStream_t s) { return s->tasks.empty(); });
}

CUstream_st* Device::choose(CUstream_st* wanted) {
  if (order == StreamOrder::late && wanted != nullptr) {
    // Follow the waits to the stream that holds up the wanted one.
    CUstream_st* s = wanted;
    for (std::size_t hops = 0; hops <= streams.size() && !runnable(s); ++hops) {
      if (s->tasks.empty()) break;
      s = stream(s->tasks.front().wait->stream);
    }
    if (runnable(s)) return s;
  }
  const std::vector<CUstream_st*> all = runnable_streams();
  if (all.empty()) return nullptr;
  const auto by_number = [](const CUstream_st* a, const CUstream_st* b) {
    return a->tasks.front().number < b->tasks.front().number;
  };
  switch (order) {
    case StreamOrder::enqueued:
      return *std::min_element(all.begin(), all.end(), by_number);
    case StreamOrder::late:
    case StreamOrder::newest:
      return *std::max_element(all.begin(), all.end(), by_number);
    case StreamOrder::random:
      return all[random() % all.size()];
  }
  return nullptr;
}

void Device::run_head(CUstream_st* s) {
  const Task task = std::move(s->tasks.front());
  s->tasks.pop_front();
  if (task.record != nullptr && known(task.record)) {
    task.record->reached = std::max(task.record->reached, task.ticket);
    task.record->seconds = now();
  }
  if (!task.body || sticky != cudaSuccess) return;
  try {
    task.body();
  } catch (const std::exception& error) {
    sticky = cudaErrorLaunchFailure;
    sticky_message = error.what();
  }
}

void Device::run_until(const std::function<bool()>& done, CUstream_st* wanted) {
  while (!done()) {
    CUstream_st* s = choose(wanted);
    if (s == nullptr) {
      sticky = cudaErrorLaunchFailure;
      sticky_message = "streams wait for each other in a circle";
      return;
    }
    run_head(s);
  }
}

void Device::run_graph(const CUgraph_st& graph) {
  std::vector<int> missing(graph.nodes.size()), ready;
  std::vector<std::vector<int>> next(graph.nodes.size());
  for (int i = 0; i < static_cast<int>(graph.nodes.size()); ++i) {
    const std::vector<int>& after = graph.nodes[static_cast<std::size_t>(i)].after;
    missing[static_cast<std::size_t>(i)] = static_cast<int>(after.size());
    for (const int before : after) next[static_cast<std::size_t>(before)].push_back(i);
    if (after.empty()) ready.push_back(i);
  }
  while (!ready.empty()) {
    auto chosen = std::min_element(ready.begin(), ready.end());
    if (order == StreamOrder::random)
      chosen = ready.begin() + static_cast<std::ptrdiff_t>(random() % ready.size());
    else if (order != StreamOrder::enqueued)
      chosen = std::max_element(ready.begin(), ready.end());
    const int node = *chosen;
    ready.erase(chosen);
    graph.nodes[static_cast<std::size_t>(node)].body();
    for (const int n : next[static_cast<std::size_t>(node)])
      if (--missing[static_cast<std::size_t>(n)] == 0) ready.push_back(n);
  }
}

void set_stream_order(StreamOrder order, std::uint64_t seed) {
  Device& device = Device::get();
  const std::lock_guard lock(device.mutex);
  device.order = order;
  device.random.seed(seed);
}

void enqueue(cudaStream_t s, std::function<void()> body) {
  Device& device = Device::get();
  const std::lock_guard lock(device.mutex);
  CUstream_st* stream = device.stream(s);
  if (stream->capture == nullptr) return device.enqueue(s, {.number = 0, .body = std::move(body)});
  std::vector<TitanGraphNode>& nodes = stream->capture->graph.nodes;
  nodes.push_back({std::move(body), stream->frontier});
  stream->frontier = {static_cast<int>(nodes.size()) - 1};
}

cudaError_t result(cudaError_t error) {
  Device& device = Device::get();
  const std::lock_guard lock(device.mutex);
  if (device.sticky != cudaSuccess) return device.sticky;
  if (error != cudaSuccess) device.last = error;
  return error;
}

cudaError_t set_last_error(cudaError_t error) { return result(error); }

void reset_device() {
  Device& device = Device::get();
  const std::lock_guard lock(device.mutex);
  device.stream(nullptr)->tasks.clear();
  for (const cudaStream_t s : device.streams) {
    s->tasks.clear();
    s->capture = nullptr;
    s->frontier.clear();
  }
  for (const cudaEvent_t e : device.events) e->reached = e->recorded;
  device.sticky = device.last = cudaSuccess;
}

void set_device_memory(std::int64_t bytes) {
  Device& device = Device::get();
  const std::lock_guard lock(device.mutex);
  device.device_capacity = static_cast<std::size_t>(bytes);
}

bool in_device_memory(const void* p, std::size_t bytes) {
  Device& device = Device::get();
  const std::lock_guard lock(device.mutex);
  const auto* const at = static_cast<const std::byte*>(p);
  auto block = device.device_blocks.upper_bound(at);
  if (block == device.device_blocks.begin()) return false;
  --block;
  return at + bytes <= block->first + block->second;
}

}  // namespace titan::cuda::host

using titan::cuda::host::Device;
using titan::cuda::host::result;

cudaError_t cudaGetLastError() {
  Device& device = Device::get();
  const std::lock_guard lock(device.mutex);
  if (device.sticky != cudaSuccess) return device.sticky;
  return std::exchange(device.last, cudaSuccess);
}
cudaError_t cudaPeekAtLastError() {
  Device& device = Device::get();
  const std::lock_guard lock(device.mutex);
  return device.sticky != cudaSuccess ? device.sticky : device.last;
}
const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
#define TITAN_NAME(name) \
  case name:             \
    return #name;
    TITAN_NAME(cudaSuccess)
    TITAN_NAME(cudaErrorInvalidValue)
    TITAN_NAME(cudaErrorMemoryAllocation)
    TITAN_NAME(cudaErrorInvalidConfiguration)
    TITAN_NAME(cudaErrorInvalidMemcpyDirection)
    TITAN_NAME(cudaErrorInvalidDevice)
    TITAN_NAME(cudaErrorInvalidResourceHandle)
    TITAN_NAME(cudaErrorNotReady)
    TITAN_NAME(cudaErrorLaunchFailure)
    TITAN_NAME(cudaErrorStreamCaptureUnsupported)
    TITAN_NAME(cudaErrorStreamCaptureInvalidated)
    TITAN_NAME(cudaErrorStreamCaptureUnmatched)
    TITAN_NAME(cudaErrorStreamCaptureUnjoined)
#undef TITAN_NAME
  }
  return "unrecognized error code";
}
const char* cudaGetErrorString(cudaError_t error) {
  Device& device = Device::get();
  const std::lock_guard lock(device.mutex);
  return error == device.sticky && error != cudaSuccess ? device.sticky_message.c_str()
                                                        : cudaGetErrorName(error);
}

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return result(cudaSuccess);
}
cudaError_t cudaSetDevice(int device) { return result(device == 0 ? cudaSuccess : cudaErrorInvalidDevice); }
cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return result(cudaSuccess);
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (device != 0) return result(cudaErrorInvalidDevice);
  *properties = {.name = "CUDA on the host",
                 .major = 9,
                 .minor = 0,
                 .multiProcessorCount = 4,
                 .totalGlobalMem = Device::get().device_capacity,
                 .sharedMemPerBlockOptin = 227 << 10};
  return result(cudaSuccess);
}
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  Device& device = Device::get();
  const std::lock_guard lock(device.mutex);
  *total = device.device_capacity;
  *free = device.device_capacity - std::min(device.device_used, device.device_capacity);
  return result(cudaSuccess);
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = 13000;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = 13000;
  return cudaSuccess;
}
cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int value) {
  return result(value <= 227 << 10 ? cudaSuccess : cudaErrorInvalidValue);
}
