// Errors and properties of cuda_runtime.h.
#include <utility>

#include "kernels/cuda/host/device.h"
#include "kernels/cuda/host/grid.h"

using titan::cuda::host::Device;
using titan::cuda::host::kMaxShared;
using titan::cuda::host::Lock;
using titan::cuda::host::result;

cudaError_t cudaGetLastError() {
  Device& device = Device::get();
  const Lock lock(device.mutex);
  if (device.sticky != cudaSuccess) return device.sticky;
  return std::exchange(device.last, cudaSuccess);
}
cudaError_t cudaPeekAtLastError() {
  Device& device = Device::get();
  const Lock lock(device.mutex);
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
    TITAN_NAME(cudaErrorNotPermitted)
    TITAN_NAME(cudaErrorStreamCaptureUnsupported)
    TITAN_NAME(cudaErrorStreamCaptureInvalidated)
    TITAN_NAME(cudaErrorStreamCaptureMerge)
    TITAN_NAME(cudaErrorStreamCaptureUnmatched)
    TITAN_NAME(cudaErrorStreamCaptureUnjoined)
    TITAN_NAME(cudaErrorStreamCaptureIsolation)
    TITAN_NAME(cudaErrorCapturedEvent)
    TITAN_NAME(cudaErrorStreamCaptureWrongThread)
#undef TITAN_NAME
  }
  return "unrecognized error code";
}
const char* cudaGetErrorString(cudaError_t error) {
  Device& device = Device::get();
  const Lock lock(device.mutex);
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
                 .sharedMemPerBlockOptin = kMaxShared};
  return result(cudaSuccess);
}
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  Device& device = Device::get();
  const Lock lock(device.mutex);
  *total = device.device_capacity;
  *free = device.device_used < *total ? *total - device.device_used : 0;
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
  return result(value >= 0 && static_cast<std::size_t>(value) <= kMaxShared ? cudaSuccess
                                                                            : cudaErrorInvalidValue);
}
