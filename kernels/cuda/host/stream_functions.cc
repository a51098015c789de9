// Streams and events of cuda_runtime.h.
#include <algorithm>
#include <memory>

#include "kernels/cuda/host/device.h"

using titan::cuda::host::CapturePtr;
using titan::cuda::host::Device;
using titan::cuda::host::Lock;
using titan::cuda::host::Recording;
using titan::cuda::host::result;

namespace {

cudaError_t bad_handle() { return result(cudaErrorInvalidResourceHandle); }

/// An operation that a capture does not allow, and does not survive.
cudaError_t invalidate(const CapturePtr& capture, cudaError_t error) {
  capture->invalid = true;
  return result(error);
}

/// What the host must not ask about: 0, or the error.
cudaError_t refuse_wait(Device& device, const CapturePtr& capture, cudaError_t error) {
  if (capture != nullptr && !capture->ended) capture->invalid = true;
  if (capture != nullptr) return error;
  return device.refuse_in_capture();
}

/// A query runs something, so that polling comes to an end.
cudaError_t not_ready(Device& device, CUstream_st* stream) {
  device.step(stream);
  return result(cudaErrorNotReady);
}

bool reached(const CUevent_st& event) { return event.recording == nullptr || event.recording->reached; }

/// The stream goes on in the event's capture, after what the event is after.
cudaError_t join_capture(CUstream_st* s, const CUevent_st& event) {
  if (event.capture->ended) return cudaErrorCapturedEvent;
  if (event.capture->invalid) return cudaErrorStreamCaptureInvalidated;
  if (s->capture != nullptr && s->capture != event.capture) {
    s->capture->invalid = event.capture->invalid = true;
    return cudaErrorStreamCaptureMerge;
  }
  if (s->capture == nullptr) s->frontier.clear();
  s->capture = event.capture;
  s->frontier.insert(s->frontier.end(), event.frontier.begin(), event.frontier.end());
  std::sort(s->frontier.begin(), s->frontier.end());
  s->frontier.erase(std::unique(s->frontier.begin(), s->frontier.end()), s->frontier.end());
  return cudaSuccess;
}

}  // namespace

/// Only streams that the default stream does not wait for.
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  Device& device = Device::get();
  const Lock lock(device.mutex);
  *stream = nullptr;
  if (flags != cudaStreamNonBlocking) return result(cudaErrorInvalidValue);
  if (const auto error = titan::cuda::host::enter_device()) return result(error);
  *stream = device.streams.make({.device = titan::cuda::host::current_device()});
  return result(cudaSuccess);
}

/// Returns at once; what is in the stream still runs.
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  Device& device = Device::get();
  const Lock lock(device.mutex);
  if (stream == nullptr || !device.known(stream)) return bad_handle();
  if (stream->capture != nullptr) return invalidate(stream->capture, cudaErrorStreamCaptureUnsupported);
  device.streams.destroy(stream);
  return result(cudaSuccess);
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  Device& device = Device::get();
  const Lock lock(device.mutex);
  if (!device.known(stream)) return bad_handle();
  CUstream_st* const s = device.stream(stream);
  if (const auto error = refuse_wait(device, s->capture, cudaErrorStreamCaptureUnsupported))
    return result(error);
  device.run_until([s] { return s->tasks.empty(); }, s);
  return result(cudaSuccess);
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  Device& device = Device::get();
  const Lock lock(device.mutex);
  if (!device.known(stream)) return bad_handle();
  CUstream_st* const s = device.stream(stream);
  if (const auto error = refuse_wait(device, s->capture, cudaErrorStreamCaptureUnsupported))
    return result(error);
  return s->tasks.empty() ? result(cudaSuccess) : not_ready(device, s);
}

cudaError_t cudaDeviceSynchronize() {
  Device& device = Device::get();
  const Lock lock(device.mutex);
  if (const auto error = device.refuse_in_any_capture()) return result(error);
  device.drain();
  return result(cudaSuccess);
}

/// The function must not call the runtime.
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* argument) {
  Device& device = Device::get();
  const Lock lock(device.mutex);
  if (const auto error = device.usable(stream)) return result(error);
  titan::cuda::host::enqueue(stream, [function, argument, &device] {
    device.in_host_function = true;
    function(argument);
    device.in_host_function = false;
  });
  return result(cudaSuccess);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  Device& device = Device::get();
  const Lock lock(device.mutex);
  *event = device.events.make({.timed = (flags & cudaEventDisableTiming) == 0});
  return result(cudaSuccess);
}

/// Returns at once; what waits for the event still does.
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  Device& device = Device::get();
  const Lock lock(device.mutex);
  if (!device.events.known(event)) return bad_handle();
  device.events.destroy(event);
  return result(cudaSuccess);
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  Device& device = Device::get();
  const Lock lock(device.mutex);
  if (!device.events.known(event)) return bad_handle();
  if (const auto error = device.usable(stream)) return result(error);
  const CUstream_st* const s = device.stream(stream);
  event->capture = s->capture;
  event->frontier = s->frontier;
  if (s->capture != nullptr) return result(cudaSuccess);
  event->recording = std::make_shared<Recording>(Recording{.stream = stream});
  device.enqueue(stream, {.record = event->recording});
  return result(cudaSuccess);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  Device& device = Device::get();
  const Lock lock(device.mutex);
  if (!device.events.known(event)) return bad_handle();
  if (const auto error = device.usable(stream)) return result(error);
  CUstream_st* const s = device.stream(stream);
  if (event->capture != nullptr) {
    if (stream == nullptr) return invalidate(event->capture, cudaErrorStreamCaptureUnsupported);
    return result(join_capture(s, *event));
  }
  if (s->capture != nullptr) return invalidate(s->capture, cudaErrorStreamCaptureIsolation);
  if (event->recording != nullptr) device.enqueue(stream, {.wait = event->recording});
  return result(cudaSuccess);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  Device& device = Device::get();
  const Lock lock(device.mutex);
  if (!device.events.known(event)) return bad_handle();
  if (const auto error = refuse_wait(device, event->capture, cudaErrorCapturedEvent)) return result(error);
  if (!reached(*event))
    device.run_until([event] { return reached(*event); }, device.stream(event->recording->stream));
  return result(cudaSuccess);
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  Device& device = Device::get();
  const Lock lock(device.mutex);
  if (!device.events.known(event)) return bad_handle();
  if (const auto error = refuse_wait(device, event->capture, cudaErrorCapturedEvent)) return result(error);
  return reached(*event) ? result(cudaSuccess) : not_ready(device, device.stream(event->recording->stream));
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  Device& device = Device::get();
  const Lock lock(device.mutex);
  for (const cudaEvent_t event : {begin, end})
    if (!device.events.known(event) || !event->timed || event->recording == nullptr ||
        event->capture != nullptr)
      return bad_handle();
  if (!reached(*begin) || !reached(*end)) return result(cudaErrorNotReady);
  *milliseconds = static_cast<float>((end->recording->seconds - begin->recording->seconds) * 1e3);
  return result(cudaSuccess);
}
