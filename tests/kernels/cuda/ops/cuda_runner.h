// The CUDA backend's operations in the op table. How many times an op runs, and in which schedules, is up to
// the device: modes_on_device.cc and modes_on_host.cc.
#pragma once

#include <string>
#include <vector>

#include "tests/kernels/ops/op_table.h"

namespace titan::op_test {

std::vector<std::string> device_modes();
/// Before a run in that mode.
void set_device_mode(int mode);

}  // namespace titan::op_test
