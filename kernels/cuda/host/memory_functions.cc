// Memory of cuda_runtime.h. Device and pinned memory are ordinary memory, apart from each other in the
// books: a copy in the wrong direction is refused. Device memory is NaN when it is given.
#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "kernels/cuda/host/device.h"

using titan::cuda::host::Device;
using titan::cuda::host::in_device_memory;
using titan::cuda::host::result;

namespace {

using Lock = std::lock_guard<std::recursive_mutex>;
using Blocks = std::map<const std::byte*, std::size_t>;

constexpr std::size_t kAlignment = 256;  // of cudaMalloc
constexpr int kPoison = 0xff;

std::byte* add_block(Blocks& blocks, std::size_t bytes) {
  const std::size_t size = (std::max<std::size_t>(bytes, 1) + kAlignment - 1) / kAlignment * kAlignment;
  auto* const p = static_cast<std::byte*>(std::aligned_alloc(kAlignment, size));
  if (p == nullptr) return nullptr;
  std::memset(p, kPoison, size);
  blocks.emplace(p, bytes);
  return p;
}

/// The bytes of the block; SIZE_MAX when there is none.
std::size_t remove_block(Blocks& blocks, void* p) {
  const auto block = blocks.find(static_cast<std::byte*>(p));
  if (block == blocks.end()) return SIZE_MAX;
  const std::size_t bytes = block->second;
  blocks.erase(block);
  std::free(p);
  return bytes;
}

void drain(Device& device) {
  device.run_until([&device] { return device.idle(); }, nullptr);
}

bool direction_holds(const void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  const bool to_device = in_device_memory(to, bytes), from_device = in_device_memory(from, bytes);
  switch (kind) {
    case cudaMemcpyHostToHost:
      return !to_device && !from_device;
    case cudaMemcpyHostToDevice:
      return to_device && !from_device;
    case cudaMemcpyDeviceToHost:
      return !to_device && from_device;
    case cudaMemcpyDeviceToDevice:
      return to_device && from_device;
    case cudaMemcpyDefault:
      return true;
  }
  return false;
}

}  // namespace

cudaError_t cudaMalloc(void** p, std::size_t bytes) {
  Device& device = Device::get();
  const Lock lock(device.mutex);
  *p = nullptr;
  if (bytes > device.device_capacity || device.device_used > device.device_capacity - bytes)
    return result(cudaErrorMemoryAllocation);
  *p = add_block(device.device_blocks, bytes);
  if (*p == nullptr) return result(cudaErrorMemoryAllocation);
  device.device_used += bytes;
  return result(cudaSuccess);
}

cudaError_t cudaFree(void* p) {
  Device& device = Device::get();
  const Lock lock(device.mutex);
  if (p == nullptr) return result(cudaSuccess);
  drain(device);
  const std::size_t bytes = remove_block(device.device_blocks, p);
  if (bytes == SIZE_MAX) return result(cudaErrorInvalidValue);
  device.device_used -= bytes;
  return result(cudaSuccess);
}

cudaError_t cudaHostAlloc(void** p, std::size_t bytes, unsigned) {
  Device& device = Device::get();
  const Lock lock(device.mutex);
  *p = add_block(device.host_blocks, bytes);
  return result(*p != nullptr ? cudaSuccess : cudaErrorMemoryAllocation);
}

cudaError_t cudaFreeHost(void* p) {
  Device& device = Device::get();
  const Lock lock(device.mutex);
  if (p == nullptr) return result(cudaSuccess);
  drain(device);
  return result(remove_block(device.host_blocks, p) != SIZE_MAX ? cudaSuccess : cudaErrorInvalidValue);
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  Device& device = Device::get();
  const Lock lock(device.mutex);
  if (!device.known(stream)) return result(cudaErrorInvalidResourceHandle);
  if (!direction_holds(to, from, bytes, kind)) return result(cudaErrorInvalidMemcpyDirection);
  titan::cuda::host::enqueue(stream, [=] { std::memcpy(to, from, bytes); });
  return result(cudaSuccess);
}

cudaError_t cudaMemcpy2DAsync(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                              std::size_t width, std::size_t height, cudaMemcpyKind kind,
                              cudaStream_t stream) {
  Device& device = Device::get();
  const Lock lock(device.mutex);
  if (!device.known(stream)) return result(cudaErrorInvalidResourceHandle);
  if (width > to_pitch || width > from_pitch) return result(cudaErrorInvalidValue);
  if (width == 0 || height == 0) return result(cudaSuccess);
  if (!direction_holds(to, from, width, kind)) return result(cudaErrorInvalidMemcpyDirection);
  titan::cuda::host::enqueue(stream, [=] {
    for (std::size_t r = 0; r < height; ++r)
      std::memcpy(static_cast<std::byte*>(to) + r * to_pitch,
                  static_cast<const std::byte*>(from) + r * from_pitch, width);
  });
  return result(cudaSuccess);
}

cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  const cudaError_t error = cudaMemcpyAsync(to, from, bytes, kind, nullptr);
  return error != cudaSuccess ? error : cudaStreamSynchronize(nullptr);
}

cudaError_t cudaMemsetAsync(void* p, int value, std::size_t bytes, cudaStream_t stream) {
  Device& device = Device::get();
  const Lock lock(device.mutex);
  if (!device.known(stream)) return result(cudaErrorInvalidResourceHandle);
  titan::cuda::host::enqueue(stream, [=] { std::memset(p, value, bytes); });
  return result(cudaSuccess);
}

cudaError_t cudaMemset2DAsync(void* p, std::size_t pitch, int value, std::size_t width, std::size_t height,
                              cudaStream_t stream) {
  Device& device = Device::get();
  const Lock lock(device.mutex);
  if (!device.known(stream)) return result(cudaErrorInvalidResourceHandle);
  if (height > 1 && width > pitch) return result(cudaErrorInvalidValue);
  titan::cuda::host::enqueue(stream, [=] {
    for (std::size_t r = 0; r < height; ++r)
      std::memset(static_cast<std::byte*>(p) + r * pitch, value, width);
  });
  return result(cudaSuccess);
}

cudaError_t cudaMemset(void* p, int value, std::size_t bytes) {
  const cudaError_t error = cudaMemsetAsync(p, value, bytes, nullptr);
  return error != cudaSuccess ? error : cudaStreamSynchronize(nullptr);
}
