#include "kernels/cpu/base/isa.h"

#include <cstdlib>
#include <string_view>

#include "kernels/base/error.h"

namespace titan::cpu {
namespace {

Isa machine_isa() {
  __builtin_cpu_init();
  const bool avx2 =
      __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
  return avx512 ? Isa::avx512 : avx2 ? Isa::avx2 : Isa::baseline;
}

}  // namespace

const char* to_string(Isa isa) {
  constexpr const char* kNames[] = {"baseline", "avx2", "avx512"};
  return kNames[static_cast<int>(isa)];
}

Isa best_isa() {
  const Isa machine = machine_isa();
  const char* asked = std::getenv("TITAN_CPU_ISA");
  if (asked == nullptr || *asked == '\0') return machine;
  for (const Isa isa : {Isa::baseline, Isa::avx2, Isa::avx512})
    if (std::string_view(asked) == to_string(isa)) return isa < machine ? isa : machine;
  throw UserError(fmt::format("TITAN_CPU_ISA is '{}'; use baseline, avx2 or avx512, or unset it", asked));
}

Bf16Features bf16_features(Isa isa) {
  if (isa < Isa::avx512) return {};
  __builtin_cpu_init();
  return {.avx512_bf16 = __builtin_cpu_supports("avx512bf16") != 0,
          .amx = __builtin_cpu_supports("amx-tile") && __builtin_cpu_supports("amx-bf16")};
}

}  // namespace titan::cpu
