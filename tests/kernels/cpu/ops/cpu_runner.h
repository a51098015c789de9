// The CPU's operations in the op table: an instruction set, with a number of threads a mode.
#pragma once

#include <memory>
#include <vector>

#include "kernels/cpu/base/isa.h"
#include "tests/kernels/ops/op_table.h"

namespace titan::op_test {

std::unique_ptr<Runner> make_cpu_runner(cpu::Isa isa, std::vector<int> threads = {1, 2, 3});

}  // namespace titan::op_test
