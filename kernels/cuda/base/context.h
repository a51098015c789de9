// What a CUDA operation gets: where its operands are, and the stream to run in.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "kernels/op/backend.h"

namespace titan::cuda {

class GemmEngine;

/// What kernels ask of the device they run on.
struct DeviceInfo {
  int compute_capability = 0;  ///< major · 10 + minor: 90 is Hopper
  int multiprocessors = 1;
};

struct Context {
  const Binding& binding;
  cudaStream_t stream = nullptr;
  DeviceInfo device;
  GemmEngine* gemm = nullptr;  ///< plans of matrix products; only Gemm needs it
  CommunicatorSet* communicators = nullptr;
  int lane = 0;

  std::byte* data(const Operand& operand) const {
    return operand ? binding.addresses[operand.value] : nullptr;
  }
  template <class T>
  T* data_as(const Operand& operand) const {
    return reinterpret_cast<T*>(data(operand));
  }
  /// Whether the accumulating operand at `index` among the op's present operands must be overwritten.
  bool overwrites(int index) const { return (binding.overwrite >> index & 1u) != 0; }
};

}  // namespace titan::cuda
