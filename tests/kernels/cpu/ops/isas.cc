#include "kernels/cpu/base/isa.h"

#include "tests/kernels/cpu/ops/op_table.h"

namespace titan::op_test {

std::vector<cpu::Isa> isas() {
  std::vector<cpu::Isa> all;
  for (const cpu::Isa isa : cpu::kAllIsas)
    if (isa <= cpu::best_isa()) all.push_back(isa);
  return all;
}

}  // namespace titan::op_test
