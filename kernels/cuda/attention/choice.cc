#include "kernels/cuda/attention/choice.h"

#include <algorithm>
#include <initializer_list>

namespace titan::cuda {
namespace {

constexpr int kFirstCapability = 80;      ///< with mma.sync on bf16 and cp.async
constexpr std::int64_t kRowMultiple = 8;  ///< elements of bf16 in 16 bytes

using Operands = std::initializer_list<const Operand*>;

bool all_bf16(Operands operands) {
  return std::all_of(operands.begin(), operands.end(),
                     [](const Operand* o) { return o->dtype == DType::bf16; });
}
bool rows_aligned(Operands operands) {
  return std::all_of(operands.begin(), operands.end(),
                     [](const Operand* o) { return o->rows == 1 || o->pitch % kRowMultiple == 0; });
}

bool fits_tensor_cores(const AttentionShape& shape, const DeviceInfo& device) {
  return device.compute_capability >= kFirstCapability && shape.scale > 0 &&
         (shape.head_dim == 64 || shape.head_dim == 128);
}

}  // namespace

std::string_view to_string(AttentionKernel kernel) {
  return kernel == AttentionKernel::general ? "general" : "tensor_core";
}

AttentionKernel attention_kernel(const Attention& op, const DeviceInfo& device, bool aligned) {
  const Operands rows{&op.q, &op.k, &op.v, &op.out};
  const bool fits = fits_tensor_cores(op.shape, device) && aligned && all_bf16(rows) && rows_aligned(rows);
  return fits ? AttentionKernel::tensor_core : AttentionKernel::general;
}

AttentionKernel attention_kernel(const AttentionGrad& op, const DeviceInfo& device, bool aligned) {
  const Operands read{&op.dout, &op.q, &op.k, &op.v}, written{&op.dq, &op.dk, &op.dv};
  const bool fits = fits_tensor_cores(op.shape, device) && aligned && all_bf16(read) && rows_aligned(read) &&
                    rows_aligned(written);
  return fits ? AttentionKernel::tensor_core : AttentionKernel::general;
}

}  // namespace titan::cuda
