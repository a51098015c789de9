// Graphs of cuda_runtime.h.
#include <algorithm>
#include <memory>

#include "kernels/cuda/host/device.h"

using titan::cuda::host::Capture;
using titan::cuda::host::Device;
using titan::cuda::host::result;

namespace {

using Lock = std::lock_guard<std::recursive_mutex>;

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

}  // namespace

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  Device& device = Device::get();
  const Lock lock(device.mutex);
  if (!device.known(stream)) return result(cudaErrorInvalidResourceHandle);
  if (stream == nullptr) return result(cudaErrorStreamCaptureUnsupported);
  if (stream->capture != nullptr) return result(cudaErrorInvalidValue);
  stream->capture = std::make_shared<Capture>(Capture{stream, {}});
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
  if (stream == nullptr || !device.known(stream) || stream->capture == nullptr)
    return result(cudaErrorInvalidValue);
  const std::shared_ptr<Capture> capture = stream->capture;
  if (capture->origin != stream) return result(cudaErrorStreamCaptureUnmatched);
  const std::vector<int> end = stream->frontier;
  for (const cudaStream_t s : device.streams)
    if (s->capture == capture) s->capture = nullptr, s->frontier.clear();
  if (!joined(capture->graph, end)) return result(cudaErrorStreamCaptureUnjoined);
  *graph = new CUgraph_st(std::move(capture->graph));
  return result(cudaSuccess);
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long) {
  *exec = new CUgraphExec_st{*graph};
  return result(cudaSuccess);
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  Device& device = Device::get();
  const Lock lock(device.mutex);
  if (!device.known(stream)) return result(cudaErrorInvalidResourceHandle);
  titan::cuda::host::enqueue(stream, [exec] { Device::get().run_graph(exec->graph); });
  return result(cudaSuccess);
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return result(cudaSuccess);
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  Device& device = Device::get();
  const Lock lock(device.mutex);
  device.run_until([&device] { return device.idle(); }, nullptr);
  delete exec;
  return result(cudaSuccess);
}
