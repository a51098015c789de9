// Which kernels an attention runs on: a pure function of the operation, where its operands are and the
// device, so that equal programs have equal bits on equal devices.
#pragma once

#include <cstdint>
#include <string_view>

#include "kernels/cuda/base/context.h"
#include "kernels/op/ops.h"

namespace titan::cuda {

enum class AttentionKernel : std::uint8_t {
  general,      ///< f32 arithmetic: any dtype, pitch and head_dim up to kMaxAttentionHeadDim
  tensor_core,  ///< mma.sync on bf16: head_dim 64 and 128, rows at multiples of 16 bytes
};
std::string_view to_string(AttentionKernel kernel);

/// `aligned`: q, k, v, dout and the results start at multiples of 16 bytes.
AttentionKernel attention_kernel(const Attention& op, const DeviceInfo& device, bool aligned);
AttentionKernel attention_kernel(const AttentionGrad& op, const DeviceInfo& device, bool aligned);

}  // namespace titan::cuda
