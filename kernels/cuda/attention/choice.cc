#include "kernels/cuda/attention/choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <initializer_list>
#include <optional>

#include "kernels/base/error.h"

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

constexpr const char* kVariable = "TITAN_CUDA_ATTENTION";

/// What the environment asks for. A name that is none must not pass for a choice.
std::optional<AttentionKernel> asked_for() {
  const char* const name = std::getenv(kVariable);
  if (name == nullptr || *name == '\0') return std::nullopt;
  for (const AttentionKernel kernel :
       {AttentionKernel::general, AttentionKernel::tensor_core, AttentionKernel::hopper})
    if (name == to_string(kernel)) return kernel;
  throw UserError(fmt::format(
      "{}={}: there is no such kernel of attention; general, tensor_core and hopper are", kVariable, name));
}

/// The best kernel that is verified, or the one that is asked for, for operands that tensor cores can take.
AttentionKernel kernel_for(const DeviceInfo& device, bool fits_hopper) {
  const std::optional<AttentionKernel> asked = asked_for();
  if (asked == AttentionKernel::general) return AttentionKernel::general;
  const bool takes_hopper =
      asked ? asked == AttentionKernel::hopper : verified(AttentionKernel::hopper, kHopper);
  return takes_hopper && fits_hopper && device.compute_capability == kHopper ? AttentionKernel::hopper
                                                                             : AttentionKernel::tensor_core;
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
  const AttentionKernel kernel = kernel_for({.compute_capability = compute_capability}, true);
  if (kernel == AttentionKernel::general) return fmt::format("general kernels, as {} asks", kVariable);
  if (kernel == AttentionKernel::hopper)
    return verified(kernel, compute_capability)
               ? "kernels of TMA and wgmma"
               : fmt::format("kernels of TMA and wgmma, not verified on such a GPU, as {} asks", kVariable);
  if (compute_capability != kHopper) return "kernels of mma.sync";
  return "kernels of mma.sync; those of TMA and wgmma wait to be verified on such a GPU "
         "(scripts/gpu_check.sh; TITAN_CUDA_ATTENTION=hopper takes them)";
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
  return kernel_for(device, !op.kv_length);
}

AttentionKernel attention_kernel(const AttentionGrad& op, const DeviceInfo& device, bool aligned) {
  const Operands read{&op.dout, &op.q, &op.k, &op.v}, written{&op.dq, &op.dk, &op.dv};
  const bool fits = fits_tensor_cores(op.shape, device) && aligned && all_bf16(read) && rows_aligned(read) &&
                    rows_aligned(written);
  if (!fits) return AttentionKernel::general;
  return kernel_for(device, true);
}

}  // namespace titan::cuda
