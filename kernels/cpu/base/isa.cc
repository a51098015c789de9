#include "kernels/cpu/base/isa.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>

#include "kernels/base/error.h"

namespace titan::cpu {
namespace {

/// Linux gives tiles to a process that asks (Documentation/arch/x86/xstate.rst); its threads have them too.
bool may_use_tiles() {
  constexpr long kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILE_DATA
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

Isa machine_isa() {
  __builtin_cpu_init();
  const bool avx2 =
      __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
  if (!avx512) return avx2 ? Isa::avx2 : Isa::baseline;
  if (!__builtin_cpu_supports("avx512bf16")) return Isa::avx512;
  const bool amx = __builtin_cpu_supports("amx-tile") && __builtin_cpu_supports("amx-bf16");
  return amx && may_use_tiles() ? Isa::amx : Isa::avx512_bf16;
}

}  // namespace

const char* to_string(Isa isa) {
  constexpr const char* kNames[] = {"baseline", "avx2", "avx512", "avx512_bf16", "amx"};
  return kNames[static_cast<int>(isa)];
}

Isa best_isa() {
  const Isa machine = machine_isa();
  const char* asked = std::getenv("TITAN_CPU_ISA");
  if (asked == nullptr || *asked == '\0') return machine;
  for (const Isa isa : kAllIsas)
    if (std::string_view(asked) == to_string(isa)) return isa < machine ? isa : machine;
  throw UserError(fmt::format(
      "TITAN_CPU_ISA is '{}'; use baseline, avx2, avx512, avx512_bf16 or amx, or unset it", asked));
}

}  // namespace titan::cpu
