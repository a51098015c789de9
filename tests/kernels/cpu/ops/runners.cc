// Every instruction set of this machine.
#include "tests/kernels/cpu/ops/cpu_runner.h"

namespace titan::op_test {

const std::vector<std::unique_ptr<Runner>>& runners() {
  static const std::vector<std::unique_ptr<Runner>> all = [] {
    std::vector<std::unique_ptr<Runner>> made;
    for (const cpu::Isa isa : cpu::kAllIsas)
      if (isa <= cpu::best_isa()) made.push_back(make_cpu_runner(isa));
    return made;
  }();
  return all;
}

}  // namespace titan::op_test
