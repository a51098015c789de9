// Graphs of cuda_runtime.h.
#include <algorithm>
#include <memory>
#include <utility>

#include "kernels/cuda/host/device.h"

using titan::cuda::host::Capture;
using titan::cuda::host::CapturePtr;
using titan::cuda::host::Device;
using titan::cuda::host::Lock;
using titan::cuda::host::Recording;
using titan::cuda::host::result;

namespace {

/// Whether every node of the graph comes before the end of the origin's stream.
bool joined(const CUgraph_st& graph, const std::vector<int>& frontier) {
  std::vector<char> seen(graph.nodes.size(), 0);
  std::vector<int> open = frontier;
  while (!open.empty()) {
    const auto node = static_cast<std::size_t>(open.back());
    open.pop_back();
    if (seen[node]) continue;
    seen[node] = 1;
    open.insert(open.end(), graph.nodes[node].after.begin(), graph.nodes[node].after.end());
  }
  return std::all_of(seen.begin(), seen.end(), [](char s) { return s != 0; });
}

cudaError_t check_end(const Capture& capture, cudaStream_t stream) {
  if (capture.origin != stream) return cudaErrorStreamCaptureUnmatched;
  if (capture.mode != cudaStreamCaptureModeRelaxed && capture.thread != std::this_thread::get_id())
    return cudaErrorStreamCaptureWrongThread;
  return cudaSuccess;
}

void release_streams(Device& device, const CapturePtr& capture) {
  capture->ended = true;
  for (CUstream_st* const s : device.streams.live())
    if (s->capture == capture) s->capture = nullptr, s->frontier.clear();
}

}  // namespace

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  Device& device = Device::get();
  const Lock lock(device.mutex);
  if (const auto error = device.usable(stream)) return result(error);
  if (stream == nullptr) return result(cudaErrorStreamCaptureUnsupported);
  if (stream->capture != nullptr) return result(cudaErrorInvalidValue);
  stream->capture = std::make_shared<Capture>(
      Capture{.origin = stream, .mode = mode, .thread = std::this_thread::get_id(), .graph = {}});
  stream->frontier.clear();
  return result(cudaSuccess);
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  Device& device = Device::get();
  const Lock lock(device.mutex);
  if (!device.known(stream)) return result(cudaErrorInvalidResourceHandle);
  const bool captures = device.stream(stream)->capture != nullptr;
  *status = captures ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  return result(cudaSuccess);
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  Device& device = Device::get();
  const Lock lock(device.mutex);
  *graph = nullptr;
  if (!device.known(stream)) return result(cudaErrorInvalidResourceHandle);
  if (stream == nullptr || stream->capture == nullptr) return result(cudaErrorInvalidValue);
  const CapturePtr capture = stream->capture;
  if (const auto error = check_end(*capture, stream)) {
    capture->invalid = true;
    return result(error);
  }
  const std::vector<int> end = std::move(stream->frontier);
  release_streams(device, capture);
  if (capture->invalid) return result(cudaErrorStreamCaptureInvalidated);
  if (!joined(capture->graph, end)) return result(cudaErrorStreamCaptureUnjoined);
  *graph = device.graphs.make(std::move(capture->graph));
  return result(cudaSuccess);
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long) {
  Device& device = Device::get();
  const Lock lock(device.mutex);
  *exec = nullptr;
  if (!device.graphs.known(graph)) return result(cudaErrorInvalidValue);
  const std::size_t bytes = static_cast<std::size_t>(device.hardware.node_bytes) * graph->nodes.size();
  if (!device.has_room(bytes)) return result(cudaErrorMemoryAllocation);
  device.device_used += bytes;
  *exec = device.execs.make(
      {.graph = std::make_shared<const CUgraph_st>(*graph), .bytes = bytes, .last_launch = nullptr});
  return result(cudaSuccess);
}

/// After what is in the stream, and after the launch before.
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  Device& device = Device::get();
  const Lock lock(device.mutex);
  if (!device.execs.known(exec)) return result(cudaErrorInvalidValue);
  if (const auto error = device.usable(stream)) return result(error);
  const auto run = [graph = exec->graph, &device] { device.run_graph(*graph); };
  if (device.stream(stream)->capture != nullptr) {
    titan::cuda::host::enqueue(stream, run);
    return result(cudaSuccess);
  }
  if (exec->last_launch != nullptr) device.enqueue(stream, {.wait = exec->last_launch});
  exec->last_launch = std::make_shared<Recording>(Recording{.stream = stream});
  device.enqueue(stream, {.body = run});
  device.enqueue(stream, {.record = exec->last_launch});
  return result(cudaSuccess);
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  Device& device = Device::get();
  const Lock lock(device.mutex);
  if (!device.graphs.known(graph)) return result(cudaErrorInvalidValue);
  graph->nodes.clear();
  device.graphs.destroy(graph);
  return result(cudaSuccess);
}

/// Returns at once; launches that have not run still do.
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  Device& device = Device::get();
  const Lock lock(device.mutex);
  if (!device.execs.known(exec)) return result(cudaErrorInvalidValue);
  exec->graph = nullptr;
  device.device_used -= std::exchange(exec->bytes, 0);
  device.execs.destroy(exec);
  return result(cudaSuccess);
}
