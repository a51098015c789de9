#include "kernels/cuda/backend/devices.h"

#include <cublasLt.h>

#include "kernels/base/error.h"
#include "kernels/cuda/attention/choice.h"
#include "kernels/cuda/base/check.h"
#include "kernels/cuda/base/probe.h"

namespace titan::cuda {
namespace {

std::string version(int v) { return fmt::format("{}.{}", v / 1000, v % 1000 / 10); }

std::string capability(const cudaDeviceProp& properties) {
  return fmt::format("{}.{}", properties.major, properties.minor);
}

[[noreturn]] void throw_unusable(cudaError_t error) {
  cudaGetLastError();
  int driver = 0, runtime = 0;
  switch (error) {
    case cudaErrorNoDevice:
      throw UserError("the driver sees no GPU (CUDA_VISIBLE_DEVICES may hide them)");
    case cudaErrorInsufficientDriver:
      cudaDriverGetVersion(&driver);
      cudaRuntimeGetVersion(&runtime);
      throw UserError(fmt::format("the NVIDIA driver {}, and titan is built for CUDA {}: update the driver",
                                  driver > 0 ? "is for CUDA " + version(driver) : "does not run",
                                  version(runtime)));
    case cudaErrorDevicesUnavailable:
      throw UserError("the GPU is taken: another process has it for itself, or it is being reset");
    case cudaErrorMemoryAllocation:
      throw UserError("the GPU has not even the memory for a context: other processes fill it");
    default:
      throw UserError(
          fmt::format("CUDA cannot be used: {} ({})", cudaGetErrorString(error), cudaGetErrorName(error)));
  }
}

void check_usable(cudaError_t error) {
  if (error != cudaSuccess) throw_unusable(error);
}

int device_count() {
  int count = 0;
  check_usable(cudaGetDeviceCount(&count));
  return count;
}

}  // namespace

std::vector<CudaDevice> cuda_devices() {
  std::vector<CudaDevice> devices;
  for (int i = 0, count = device_count(); i < count; ++i) {
    cudaDeviceProp properties;
    check_usable(cudaGetDeviceProperties(&properties, i));
    devices.push_back({.name = properties.name,
                       .compute_capability = properties.major * 10 + properties.minor,
                       .multiprocessors = properties.multiProcessorCount,
                       .memory_bytes = static_cast<std::int64_t>(properties.totalGlobalMem),
                       .attention = describe_attention(properties.major * 10 + properties.minor)});
  }
  return devices;
}

void use_device(int device) {
  const int count = device_count();
  if (device < 0 || device >= count)
    throw UserError(fmt::format("there is no CUDA device {}: this machine has {}", device, count));
  check_usable(cudaSetDevice(device));
  cudaDeviceProp properties;
  check_usable(cudaGetDeviceProperties(&properties, device));
  const cudaError_t error = look_for_kernels();
  if (error == cudaErrorNoKernelImageForDevice || error == cudaErrorInvalidDeviceFunction)
    throw UserError(
        fmt::format("this libtitan_cuda.so has no kernels for {}, compute capability {}: build it "
                    "with -DTITAN_CUDA_FOR=all, or on that machine; 8.0 is the least",
                    properties.name, capability(properties)));
  check_usable(error);
}

titan::DeviceMemory cuda_memory(int device) {
  use_device(device);
  return device_memory_now();
}

titan::DeviceMemory device_memory_now() {
  std::size_t free = 0, total = 0;
  TITAN_CUDA(cudaMemGetInfo(&free, &total));
  return {.free_bytes = static_cast<std::int64_t>(free), .total_bytes = static_cast<std::int64_t>(total)};
}

std::string describe_cuda() {
  int driver = 0, runtime = 0;
  TITAN_CUDA(cudaDriverGetVersion(&driver));
  TITAN_CUDA(cudaRuntimeGetVersion(&runtime));
  return fmt::format("driver: CUDA {}\nruntime: CUDA {}\ncuBLASLt: {}\n", version(driver), version(runtime),
                     cublasLtGetVersion());
}

}  // namespace titan::cuda
