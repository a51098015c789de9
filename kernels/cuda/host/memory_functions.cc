// Memory of cuda_runtime.h. Device and pinned memory are ordinary memory, apart from each other in the
// books: a copy in the wrong direction is refused. Memory is NaN when it is given.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "kernels/cuda/host/device.h"

using titan::cuda::host::Device;
using titan::cuda::host::Lock;
using titan::cuda::host::result;

namespace {

using Blocks = std::map<const std::byte*, std::size_t>;

constexpr std::size_t kAlignment = 256;  // of cudaMalloc
constexpr int kPoison = 0xff;

/// Exactly so many bytes: AddressSanitizer sees the one behind.
std::byte* add_block(Blocks& blocks, std::size_t bytes) {
  void* p = nullptr;
  if (posix_memalign(&p, kAlignment, bytes) != 0) return nullptr;
  std::memset(p, kPoison, bytes);
  blocks.emplace(static_cast<std::byte*>(p), bytes);
  return static_cast<std::byte*>(p);
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

/// What is known of an address range.
enum class Where : std::uint8_t { pageable, pinned, device, beyond };  ///< beyond: over a block's end

bool find_in(const Blocks& blocks, const std::byte* at, std::size_t bytes, bool& fits) {
  auto block = blocks.upper_bound(at);
  if (block == blocks.begin()) return false;
  --block;
  const std::byte* const end = block->first + block->second;
  fits = at + bytes <= end;
  return at < end;
}

Where where(const void* p, std::size_t bytes) {
  const Device& device = Device::get();
  const auto* const at = static_cast<const std::byte*>(p);
  bool fits = false;
  if (find_in(device.device_blocks, at, bytes, fits)) return fits ? Where::device : Where::beyond;
  if (find_in(device.host_blocks, at, bytes, fits)) return fits ? Where::pinned : Where::beyond;
  return Where::pageable;
}

cudaError_t check_copy(Where to, Where from, cudaMemcpyKind kind) {
  if (to == Where::beyond || from == Where::beyond) return cudaErrorInvalidValue;
  if (kind == cudaMemcpyDefault) return cudaSuccess;
  const bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice,
             from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  return to_device == (to == Where::device) && from_device == (from == Where::device)
             ? cudaSuccess
             : cudaErrorInvalidMemcpyDirection;
}

cudaError_t allocate(Blocks& blocks, void** p, std::size_t bytes) {
  *p = bytes > 0 ? add_block(blocks, bytes) : nullptr;
  return bytes > 0 && *p == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
}

}  // namespace

bool titan::cuda::host::in_device_memory(const void* p, std::size_t bytes) {
  const Lock lock(Device::get().mutex);
  return where(p, bytes) == Where::device;
}

cudaError_t cudaMalloc(void** p, std::size_t bytes) {
  Device& device = Device::get();
  const Lock lock(device.mutex);
  *p = nullptr;
  if (const auto error = titan::cuda::host::enter_device()) return result(error);
  if (const auto error = device.refuse_in_capture()) return result(error);
  if (!device.has_room(bytes)) return result(cudaErrorMemoryAllocation);
  const cudaError_t error = allocate(device.device_blocks, p, bytes);
  if (error == cudaSuccess) device.device_used += bytes;
  return result(error);
}

/// Waits for all that the device has to do.
cudaError_t cudaFree(void* p) {
  Device& device = Device::get();
  const Lock lock(device.mutex);
  if (p == nullptr) return result(cudaSuccess);
  if (const auto error = device.refuse_in_capture()) return result(error);
  device.drain();
  const std::size_t bytes = remove_block(device.device_blocks, p);
  if (bytes == SIZE_MAX) return result(cudaErrorInvalidValue);
  device.device_used -= bytes;
  return result(cudaSuccess);
}

cudaError_t cudaHostAlloc(void** p, std::size_t bytes, unsigned) {
  Device& device = Device::get();
  const Lock lock(device.mutex);
  *p = nullptr;
  if (const auto error = device.refuse_in_capture()) return result(error);
  return result(allocate(device.host_blocks, p, bytes));
}

cudaError_t cudaFreeHost(void* p) {
  Device& device = Device::get();
  const Lock lock(device.mutex);
  if (p == nullptr) return result(cudaSuccess);
  if (const auto error = device.refuse_in_capture()) return result(error);
  device.drain();
  return result(remove_block(device.host_blocks, p) != SIZE_MAX ? cudaSuccess : cudaErrorInvalidValue);
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  Device& device = Device::get();
  const Lock lock(device.mutex);
  if (const auto error = device.usable(stream)) return result(error);
  if (bytes == 0) return result(cudaSuccess);
  if (const auto error = check_copy(where(to, bytes), where(from, bytes), kind)) return result(error);
  titan::cuda::host::enqueue(stream, [=] { std::memcpy(to, from, bytes); });
  return result(cudaSuccess);
}

cudaError_t cudaMemcpy2DAsync(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                              std::size_t width, std::size_t height, cudaMemcpyKind kind,
                              cudaStream_t stream) {
  Device& device = Device::get();
  const Lock lock(device.mutex);
  if (const auto error = device.usable(stream)) return result(error);
  if (width > to_pitch || width > from_pitch || std::max(to_pitch, from_pitch) > titan::cuda::host::kMaxPitch)
    return result(cudaErrorInvalidValue);
  if (width == 0 || height == 0) return result(cudaSuccess);
  const auto extent = [&](std::size_t pitch) { return (height - 1) * pitch + width; };
  if (const auto error = check_copy(where(to, extent(to_pitch)), where(from, extent(from_pitch)), kind))
    return result(error);
  titan::cuda::host::enqueue(stream, [=] {
    for (std::size_t r = 0; r < height; ++r)
      std::memcpy(static_cast<std::byte*>(to) + r * to_pitch,
                  static_cast<const std::byte*>(from) + r * from_pitch, width);
  });
  return result(cudaSuccess);
}

/// In the default stream. As CUDA promises: from pageable memory to the device it returns when the source has
/// been read, between device memory at once, otherwise when all is done.
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  Device& device = Device::get();
  const Lock lock(device.mutex);
  if (const auto error = device.refuse_in_capture()) return result(error);
  if (bytes == 0) return result(cudaSuccess);
  const Where target = where(to, bytes), source = where(from, bytes);
  if (const auto error = check_copy(target, source, kind)) return result(error);
  if (target == Where::device && source == Where::pageable) {
    cudaStreamSynchronize(nullptr);
    const auto* const begin = static_cast<const std::byte*>(from);
    const auto staged = std::make_shared<std::vector<std::byte>>(begin, begin + bytes);
    titan::cuda::host::enqueue(nullptr, [=] { std::memcpy(to, staged->data(), bytes); });
    return result(cudaSuccess);
  }
  titan::cuda::host::enqueue(nullptr, [=] { std::memcpy(to, from, bytes); });
  if (target == Where::device && source == Where::device) return result(cudaSuccess);
  return cudaStreamSynchronize(nullptr);
}

cudaError_t cudaMemsetAsync(void* p, int value, std::size_t bytes, cudaStream_t stream) {
  Device& device = Device::get();
  const Lock lock(device.mutex);
  if (const auto error = device.usable(stream)) return result(error);
  if (bytes == 0) return result(cudaSuccess);
  const Where target = where(p, bytes);
  if (target != Where::device && target != Where::pinned) return result(cudaErrorInvalidValue);
  titan::cuda::host::enqueue(stream, [=] { std::memset(p, value, bytes); });
  return result(cudaSuccess);
}

cudaError_t cudaMemset2DAsync(void* p, std::size_t pitch, int value, std::size_t width, std::size_t height,
                              cudaStream_t stream) {
  Device& device = Device::get();
  const Lock lock(device.mutex);
  if (const auto error = device.usable(stream)) return result(error);
  if ((height > 1 && width > pitch) || pitch > titan::cuda::host::kMaxPitch)
    return result(cudaErrorInvalidValue);
  if (width == 0 || height == 0) return result(cudaSuccess);
  const Where target = where(p, (height - 1) * pitch + width);
  if (target != Where::device && target != Where::pinned) return result(cudaErrorInvalidValue);
  titan::cuda::host::enqueue(stream, [=] {
    for (std::size_t r = 0; r < height; ++r)
      std::memset(static_cast<std::byte*>(p) + r * pitch, value, width);
  });
  return result(cudaSuccess);
}

/// In the default stream. For device memory it returns at once.
cudaError_t cudaMemset(void* p, int value, std::size_t bytes) {
  Device& device = Device::get();
  const Lock lock(device.mutex);
  if (const auto error = device.refuse_in_capture()) return result(error);
  const cudaError_t error = cudaMemsetAsync(p, value, bytes, nullptr);
  if (error != cudaSuccess || bytes == 0 || where(p, bytes) == Where::device) return error;
  return cudaStreamSynchronize(nullptr);
}
