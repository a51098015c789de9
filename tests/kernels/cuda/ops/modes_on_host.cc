// On the host: the order in which the threads of a block and the blocks of a grid run.
#include "kernels/cuda/host/grid.h"
#include "tests/kernels/cuda/ops/cuda_runner.h"

namespace titan::op_test {
namespace {

using cuda::host::Order;
using cuda::host::Schedule;

constexpr Schedule kSchedules[] = {
    {Order::forward, 0}, {Order::reverse, 0}, {Order::random, 1}, {Order::random, 2}};

}  // namespace

std::vector<std::string> device_modes() { return {"forward", "reverse", "random 1", "random 2"}; }
void set_device_mode(int mode) { cuda::host::set_schedule(kSchedules[mode]); }

}  // namespace titan::op_test
