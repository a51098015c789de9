// Memory of the device, as the host's vectors.
#pragma once

#include <cstddef>
#include <vector>

#include "kernels/cuda/base/check.h"

namespace titan::test {

class DeviceMemory {
 public:
  explicit DeviceMemory(std::size_t bytes) : bytes_(bytes) { TITAN_CUDA(cudaMalloc(&p_, bytes)); }
  template <class T>
  explicit DeviceMemory(const std::vector<T>& values) : DeviceMemory(values.size() * sizeof(T)) {
    write(values);
  }
  ~DeviceMemory() { cudaFree(p_); }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  std::byte* get() const { return static_cast<std::byte*>(p_); }
  /// To its start.
  template <class T>
  void write(const std::vector<T>& values) {
    TITAN_CUDA(
        cudaMemcpyAsync(p_, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice, nullptr));
    TITAN_CUDA(cudaStreamSynchronize(nullptr));
  }
  std::vector<std::byte> bytes() const {
    std::vector<std::byte> copy(bytes_);
    TITAN_CUDA(cudaMemcpy(copy.data(), p_, bytes_, cudaMemcpyDeviceToHost));
    return copy;
  }

 private:
  void* p_ = nullptr;
  std::size_t bytes_;
};

}  // namespace titan::test
