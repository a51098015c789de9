// The executable that runs the 16-lane sources on AVX2: they stand in the place of the AVX-512 ones.
#include "kernels/cpu/base/isa.h"
#include "tests/kernels/cpu/ops/op_table.h"

namespace titan::op_test {

std::vector<cpu::Isa> isas() {
  if (cpu::best_isa() < cpu::Isa::avx2) return {};
  return {cpu::Isa::avx512};
}

}  // namespace titan::op_test
