// Streams and events of cuda_runtime.h.
#include <algorithm>

#include "kernels/cuda/host/device.h"

using titan::cuda::host::Device;
using titan::cuda::host::result;
using titan::cuda::host::Task;

namespace {

using Lock = std::lock_guard<std::recursive_mutex>;

cudaError_t bad_handle() { return result(cudaErrorInvalidResourceHandle); }

/// Waiting for a stream that captures breaks its capture.
cudaError_t wait_for(CUstream_st* stream) {
  if (stream->capture != nullptr) return result(cudaErrorStreamCaptureUnsupported);
  Device::get().run_until([stream] { return stream->tasks.empty(); }, stream);
  return result(cudaSuccess);
}

bool captures(Device& device) {
  return std::any_of(device.streams.begin(), device.streams.end(),
                     [](cudaStream_t s) { return s->capture != nullptr; });
}

}  // namespace

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  Device& device = Device::get();
  const Lock lock(device.mutex);
  *stream = *device.streams.insert(new CUstream_st).first;
  return result(cudaSuccess);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  Device& device = Device::get();
  const Lock lock(device.mutex);
  if (stream == nullptr || !device.known(stream)) return bad_handle();
  device.run_until([stream] { return stream->tasks.empty(); }, stream);
  device.streams.erase(stream);
  delete stream;
  return result(cudaSuccess);
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  Device& device = Device::get();
  const Lock lock(device.mutex);
  return device.known(stream) ? wait_for(device.stream(stream)) : bad_handle();
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  Device& device = Device::get();
  const Lock lock(device.mutex);
  if (!device.known(stream)) return bad_handle();
  return device.stream(stream)->tasks.empty() ? result(cudaSuccess) : cudaErrorNotReady;
}

cudaError_t cudaDeviceSynchronize() {
  Device& device = Device::get();
  const Lock lock(device.mutex);
  if (captures(device)) return result(cudaErrorStreamCaptureUnsupported);
  device.run_until([&device] { return device.idle(); }, nullptr);
  return result(cudaSuccess);
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* argument) {
  Device& device = Device::get();
  const Lock lock(device.mutex);
  if (!device.known(stream)) return bad_handle();
  titan::cuda::host::enqueue(stream, [function, argument] { function(argument); });
  return result(cudaSuccess);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  Device& device = Device::get();
  const Lock lock(device.mutex);
  *event = *device.events.insert(new CUevent_st).first;
  return result(cudaSuccess);
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  Device& device = Device::get();
  const Lock lock(device.mutex);
  if (!device.known(event)) return bad_handle();
  device.run_until([event] { return event->reached == event->recorded; }, device.stream(event->stream));
  device.events.erase(event);
  delete event;
  return result(cudaSuccess);
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  Device& device = Device::get();
  const Lock lock(device.mutex);
  if (!device.known(event) || !device.known(stream)) return bad_handle();
  CUstream_st* const s = device.stream(stream);
  event->capture = s->capture;
  event->frontier = s->frontier;
  if (s->capture != nullptr) return result(cudaSuccess);
  event->stream = stream;
  device.enqueue(stream, {.number = 0, .body = {}, .record = event, .ticket = ++event->recorded});
  return result(cudaSuccess);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  Device& device = Device::get();
  const Lock lock(device.mutex);
  if (!device.known(event) || !device.known(stream)) return bad_handle();
  CUstream_st* const s = device.stream(stream);
  if (event->capture != nullptr) {
    if (s->capture != nullptr && s->capture != event->capture)
      return result(cudaErrorStreamCaptureInvalidated);
    s->capture = event->capture;
    s->frontier.insert(s->frontier.end(), event->frontier.begin(), event->frontier.end());
    std::sort(s->frontier.begin(), s->frontier.end());
    s->frontier.erase(std::unique(s->frontier.begin(), s->frontier.end()), s->frontier.end());
    return result(cudaSuccess);
  }
  if (s->capture != nullptr) return result(cudaErrorStreamCaptureInvalidated);
  if (event->recorded > 0)
    device.enqueue(stream, {.number = 0, .body = {}, .wait = event, .ticket = event->recorded});
  return result(cudaSuccess);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  Device& device = Device::get();
  const Lock lock(device.mutex);
  if (!device.known(event)) return bad_handle();
  if (event->capture != nullptr) return result(cudaErrorStreamCaptureUnsupported);
  device.run_until([event] { return event->reached == event->recorded; }, device.stream(event->stream));
  return result(cudaSuccess);
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  Device& device = Device::get();
  const Lock lock(device.mutex);
  if (!device.known(event)) return bad_handle();
  return event->reached == event->recorded ? result(cudaSuccess) : cudaErrorNotReady;
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  Device& device = Device::get();
  const Lock lock(device.mutex);
  if (!device.known(begin) || !device.known(end) || begin->recorded == 0 || end->recorded == 0)
    return bad_handle();
  if (begin->reached < begin->recorded || end->reached < end->recorded) return cudaErrorNotReady;
  *milliseconds = static_cast<float>((end->seconds - begin->seconds) * 1e3);
  return result(cudaSuccess);
}
