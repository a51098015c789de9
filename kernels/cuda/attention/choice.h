// Which kernels an attention runs on: a pure function of the operation, where its operands are and the
// device, so that equal programs have equal bits on equal devices.
//
// A kernel of one architecture is taken only where a real GPU of it has passed scripts/gpu_check.sh:
// `verified` says which have. Until then the twin that runs everywhere is taken, unless the environment asks
// for the other: TITAN_CUDA_ATTENTION=hopper. It may ask for general and tensor_core too; where the kernel
// does not fit an operation, the next one that does is taken. Another name is a UserError.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "kernels/cuda/base/context.h"
#include "kernels/op/ops.h"

namespace titan::cuda {

enum class AttentionKernel : std::uint8_t {
  general,      ///< f32 arithmetic: any dtype, pitch and head_dim up to kMaxAttentionHeadDim
  tensor_core,  ///< mma.sync on bf16: head_dim 64 and 128, rows at multiples of 16 bytes
  hopper,       ///< TMA and wgmma, the same on compute capability 9.0, without kv_length
};
std::string_view to_string(AttentionKernel kernel);

/// Whether the kernel has been right on a GPU of this compute capability.
bool verified(AttentionKernel kernel, int compute_capability);

/// Which kernels bf16 heads of 64 and 128 take there, for people.
std::string describe_attention(int compute_capability);

/// `aligned`: q, k, v, dout and the results start at multiples of 16 bytes.
AttentionKernel attention_kernel(const Attention& op, const DeviceInfo& device, bool aligned);
AttentionKernel attention_kernel(const AttentionGrad& op, const DeviceInfo& device, bool aligned);

}  // namespace titan::cuda
