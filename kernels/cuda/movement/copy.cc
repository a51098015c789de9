// Copies: the driver's, between any memory.
#include "kernels/base/error.h"
#include "kernels/cuda/base/check.h"
#include "kernels/cuda/base/run.h"

namespace titan::cuda {

void run(const Copy& op, const Context& context) {
  TITAN_CHECK_EQ(op.x.rows, op.y.rows);
  TITAN_CHECK_EQ(op.x.cols, op.y.cols);
  TITAN_CHECK(op.x.dtype == op.y.dtype);
  if (op.y.elements() == 0) return;
  const std::byte* x = context.data(op.x);
  std::byte* y = context.data(op.y);
  if (op.x.contiguous() && op.y.contiguous()) {
    TITAN_CUDA(
        cudaMemcpyAsync(y, x, static_cast<std::size_t>(op.y.bytes()), cudaMemcpyDefault, context.stream));
    return;
  }
  const auto bytes = [&](std::int64_t elements) {
    return static_cast<std::size_t>(elements * size_of(op.y.dtype));
  };
  TITAN_CUDA(cudaMemcpy2DAsync(y, bytes(op.y.pitch), x, bytes(op.x.pitch), bytes(op.y.cols),
                               static_cast<std::size_t>(op.y.rows), cudaMemcpyDefault, context.stream));
}

}  // namespace titan::cuda
