#include "kernels/cuda/attention/choice.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <initializer_list>

namespace titan::cuda {
namespace {

constexpr int kFirstCapability = 80;      ///< with mma.sync on bf16 and cp.async
constexpr std::int64_t kRowMultiple = 8;  ///< elements of bf16 in 16 bytes

constexpr int kHopper = 90;

struct Verified {
  AttentionKernel kernel;
  int compute_capability;
};
/// Kernels and GPUs that scripts/gpu_check.sh has found right together: none yet.
constexpr std::array<Verified, 0> kVerified{};

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

bool takes_hopper() {
  const char* const wanted = std::getenv("TITAN_CUDA_ATTENTION");
  if (wanted != nullptr) return std::string_view(wanted) == to_string(AttentionKernel::hopper);
  return verified(AttentionKernel::hopper, kHopper);
}

}  // namespace

std::string_view to_string(AttentionKernel kernel) {
  switch (kernel) {
    case AttentionKernel::general:
      return "general";
    case AttentionKernel::tensor_core:
      return "tensor_core";
    case AttentionKernel::hopper:
      return "hopper";
  }
  return "";
}

std::string describe_attention(int compute_capability) {
  if (compute_capability < kFirstCapability) return "general kernels";
  if (compute_capability != kHopper) return "kernels of mma.sync";
  if (takes_hopper()) return "the forward of TMA and wgmma, the backward of mma.sync";
  return "kernels of mma.sync; a forward of TMA and wgmma waits to be verified on such a GPU "
         "(scripts/gpu_check.sh; TITAN_CUDA_ATTENTION=hopper takes it)";
}

bool verified(AttentionKernel kernel, int compute_capability) {
  return std::any_of(kVerified.begin(), kVerified.end(), [&](const Verified& v) {
    return v.kernel == kernel && v.compute_capability == compute_capability;
  });
}

AttentionKernel attention_kernel(const Attention& op, const DeviceInfo& device, bool aligned) {
  const Operands rows{&op.q, &op.k, &op.v, &op.out};
  const bool fits = fits_tensor_cores(op.shape, device) && aligned && all_bf16(rows) && rows_aligned(rows);
  if (!fits) return AttentionKernel::general;
  const bool for_hopper = device.compute_capability == kHopper && !op.kv_length && takes_hopper();
  return for_hopper ? AttentionKernel::hopper : AttentionKernel::tensor_core;
}

AttentionKernel attention_kernel(const AttentionGrad& op, const DeviceInfo& device, bool aligned) {
  const Operands read{&op.dout, &op.q, &op.k, &op.v}, written{&op.dq, &op.dk, &op.dv};
  const bool fits = fits_tensor_cores(op.shape, device) && aligned && all_bf16(read) && rows_aligned(read) &&
                    rows_aligned(written);
  return fits ? AttentionKernel::tensor_core : AttentionKernel::general;
}

}  // namespace titan::cuda
