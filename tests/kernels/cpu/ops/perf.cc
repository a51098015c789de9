#include "tests/kernels/cpu/ops/op_table.h"

namespace titan::op_test {
void run_perf(std::string_view) {}
}  // namespace titan::op_test
