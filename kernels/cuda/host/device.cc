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

bool runnable(const CUstream_st& s) {
  if (s.tasks.empty()) return false;
  const RecordingPtr& wait = s.tasks.front().wait;
  return wait == nullptr || wait->reached;
}

}  // namespace

Device& Device::get() {
  static Device device;
  return device;
}

cudaError_t Device::usable(cudaStream_t s) {
  if (const auto error = enter_device()) return error;
  if (!known(s) || (s != nullptr && s->device != current_device())) return cudaErrorInvalidResourceHandle;
  const CapturePtr& capture = stream(s)->capture;
  return capture != nullptr && capture->invalid ? cudaErrorStreamCaptureInvalidated : cudaSuccess;
}

void Device::enqueue(cudaStream_t s, Task task) {
  task.number = next_task_++;
  stream(s)->tasks.push_back(std::move(task));
}

std::vector<CUstream_st*> Device::runnable_streams() {
  std::vector<CUstream_st*> found;
  if (runnable(default_stream_)) found.push_back(&default_stream_);
  for (const auto& s : streams.all())
    if (runnable(*s)) found.push_back(s.get());
  return found;
}

bool Device::idle() const {
  return default_stream_.tasks.empty() && std::all_of(streams.all().begin(), streams.all().end(),
                                                      [](const auto& s) { return s->tasks.empty(); });
}

/// The stream that `wanted` waits for in the end, perhaps itself; null when nothing there can run.
CUstream_st* Device::blocking(CUstream_st* wanted) {
  CUstream_st* s = wanted;
  for (std::size_t hops = 0; hops <= streams.all().size() && !s->tasks.empty(); ++hops) {
    if (runnable(*s)) return s;
    s = stream(s->tasks.front().wait->stream);
  }
  return nullptr;
}

CUstream_st* Device::choose(CUstream_st* wanted) {
  if (order == StreamOrder::late && wanted != nullptr)
    if (CUstream_st* const s = blocking(wanted)) return s;
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

void Device::fail(cudaError_t error, std::string message) {
  if (sticky != cudaSuccess) return;
  sticky = error;
  sticky_message = std::move(message);
}

void Device::run_head(CUstream_st* s) {
  const Task task = std::move(s->tasks.front());
  s->tasks.pop_front();
  if (task.record != nullptr) {
    task.record->reached = true;
    task.record->seconds = now();
  }
  if (!task.body || sticky != cudaSuccess) return;
  try {
    task.body();
  } catch (const std::exception& error) {
    fail(cudaErrorLaunchFailure, error.what());
  }
}

bool Device::step(CUstream_st* wanted) {
  CUstream_st* const s = choose(wanted);
  if (s != nullptr) run_head(s);
  return s != nullptr;
}

void Device::run_until(const std::function<bool()>& done, CUstream_st* wanted) {
  while (!done())
    if (!step(wanted)) return fail(cudaErrorLaunchFailure, "streams wait for each other in a circle");
}

void Device::drain() {
  run_until([this] { return idle(); }, nullptr);
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

template <class Forbids>
cudaError_t Device::invalidate(Forbids forbids) {
  bool refused = false;
  for (const CUstream_st* s : streams.live())
    if (s->capture != nullptr && forbids(*s->capture)) s->capture->invalid = refused = true;
  return refused ? cudaErrorStreamCaptureUnsupported : cudaSuccess;
}

cudaError_t Device::refuse_in_capture() {
  return invalidate([](const Capture& c) {
    return c.mode == cudaStreamCaptureModeGlobal ||
           (c.mode == cudaStreamCaptureModeThreadLocal && c.thread == std::this_thread::get_id());
  });
}
cudaError_t Device::refuse_in_any_capture() {
  return invalidate([](const Capture&) { return true; });
}

void Device::reset() {
  const auto clear = [](CUstream_st& s) {
    for (const Task& task : s.tasks)
      if (task.record != nullptr) task.record->reached = true;
    s.tasks.clear();
    if (s.capture != nullptr) s.capture->ended = true;
    s.capture = nullptr;
    s.frontier.clear();
  };
  clear(default_stream_);
  for (const auto& s : streams.all()) clear(*s);
  sticky = last = cudaSuccess;
}

cudaError_t result(cudaError_t error) {
  Device& device = Device::get();
  const Lock lock(device.mutex);
  if (device.in_host_function)
    device.fail(cudaErrorNotPermitted, "a host function in a stream called the CUDA runtime");
  if (device.sticky != cudaSuccess) return device.sticky;
  if (error != cudaSuccess) device.last = error;
  return error;
}

// --- streams.h

void set_stream_order(StreamOrder order, std::uint64_t seed) {
  Device& device = Device::get();
  const Lock lock(device.mutex);
  device.order = order;
  device.random.seed(seed);
}

void enqueue(cudaStream_t s, std::function<void()> body) {
  Device& device = Device::get();
  const Lock lock(device.mutex);
  if (result(device.usable(s)) != cudaSuccess) return;
  CUstream_st* stream = device.stream(s);
  if (stream->capture == nullptr) return device.enqueue(s, {.body = std::move(body)});
  std::vector<TitanGraphNode>& nodes = stream->capture->graph.nodes;
  nodes.push_back({std::move(body), stream->frontier});
  stream->frontier = {static_cast<int>(nodes.size()) - 1};
}

cudaError_t set_last_error(cudaError_t error) { return result(error); }

void reset_device() {
  Device& device = Device::get();
  const Lock lock(device.mutex);
  device.reset();
}

void set_device_memory(std::int64_t bytes) {
  Device& device = Device::get();
  const Lock lock(device.mutex);
  device.device_capacity = static_cast<std::size_t>(bytes);
}

}  // namespace titan::cuda::host
