// Errors and properties of cuda_runtime.h.
#include <utility>

#include "kernels/cuda/host/device.h"
#include "kernels/cuda/host/grid.h"

using titan::cuda::host::Device;
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
    TITAN_NAME(cudaErrorInsufficientDriver)
    TITAN_NAME(cudaErrorDevicesUnavailable)
    TITAN_NAME(cudaErrorInvalidDeviceFunction)
    TITAN_NAME(cudaErrorNoDevice)
    TITAN_NAME(cudaErrorInvalidDevice)
    TITAN_NAME(cudaErrorNoKernelImageForDevice)
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

// --- Devices

/// An error where there is none, as CUDA has it.
cudaError_t cudaGetDeviceCount(int* count) {
  const Device& device = Device::get();
  *count = 0;
  if (device.hardware.fault != cudaSuccess) return result(device.hardware.fault);
  if (device.hardware.devices == 0) return result(cudaErrorNoDevice);
  *count = device.hardware.devices;
  return result(cudaSuccess);
}
/// Makes the device's context.
cudaError_t cudaSetDevice(int device) {
  if (device < 0 || device >= Device::get().hardware.devices) return result(cudaErrorInvalidDevice);
  titan::cuda::host::current_device() = device;
  return result(titan::cuda::host::enter_device());
}
cudaError_t cudaGetDevice(int* device) {
  *device = titan::cuda::host::current_device();
  return result(cudaSuccess);
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  const titan::cuda::host::Hardware& hardware = Device::get().hardware;
  if (device < 0 || device >= hardware.devices) return result(cudaErrorInvalidDevice);
  *properties = {.name = "CUDA on the host",
                 .major = hardware.compute_capability / 10,
                 .minor = hardware.compute_capability % 10,
                 .multiProcessorCount = 4,
                 .totalGlobalMem = Device::get().device_capacity,
                 .sharedMemPerBlockOptin = titan::cuda::host::max_shared(),
                 .memPitch = titan::cuda::host::kMaxPitch};
  return result(cudaSuccess);
}
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  Device& device = Device::get();
  const Lock lock(device.mutex);
  if (const auto error = titan::cuda::host::enter_device()) return result(error);
  *total = device.device_capacity;
  *free = device.device_used < *total ? *total - device.device_used : 0;
  return result(cudaSuccess);
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = Device::get().hardware.driver_version;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = 13000;
  return cudaSuccess;
}

// --- Kernels

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void*) {
  if (const auto error = titan::cuda::host::enter_device()) return result(error);
  *attributes = {};
  return result(Device::get().hardware.has_kernels ? cudaSuccess : cudaErrorNoKernelImageForDevice);
}
cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute, int value) {
  Device& device = Device::get();
  const Lock lock(device.mutex);
  const auto bytes = static_cast<std::size_t>(value);
  if (value < 0 || bytes > titan::cuda::host::max_shared()) return result(cudaErrorInvalidValue);
  device.asked_shared[function] = bytes;
  return result(cudaSuccess);
}

namespace titan::cuda::host {

int& current_device() {
  static thread_local int device = 0;
  return device;
}

cudaError_t enter_device() {
  Device& device = Device::get();
  const Lock lock(device.mutex);
  if (device.hardware.fault != cudaSuccess) return device.hardware.fault;
  device.contexts.insert(current_device());
  return cudaSuccess;
}

std::size_t max_shared() {
  switch (Device::get().hardware.compute_capability) {
    case 80:
    case 87:
      return 163 << 10;
    case 86:
    case 89:
    case 120:
    case 121:
      return 99 << 10;
    default:
      return Device::get().hardware.compute_capability < 80 ? 64 << 10 : 227 << 10;
  }
}

std::size_t asked_shared(const void* kernel) {
  const Device& device = Device::get();
  const auto asked = device.asked_shared.find(kernel);
  return asked != device.asked_shared.end() ? asked->second : 0;
}

void set_hardware(const Hardware& hardware) {
  Device& device = Device::get();
  const Lock lock(device.mutex);
  device.hardware = hardware;
  device.contexts.clear();
  device.asked_shared.clear();
  current_device() = 0;
}

int contexts() { return static_cast<int>(Device::get().contexts.size()); }

}  // namespace titan::cuda::host
