// The executable that runs the 16-lane sources on AVX2: they stand in the place of the AVX-512 ones.
#include "tests/kernels/cpu/ops/cpu_runner.h"

namespace titan::op_test {

const std::vector<std::unique_ptr<Runner>>& runners() {
  static const std::vector<std::unique_ptr<Runner>> all = [] {
    std::vector<std::unique_ptr<Runner>> made;
    if (cpu::best_isa() >= cpu::Isa::avx2) made.push_back(make_cpu_runner(cpu::Isa::avx512));
    return made;
  }();
  return all;
}

}  // namespace titan::op_test
