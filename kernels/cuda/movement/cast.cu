// Another dtype: one thread eight elements, 6 bytes an element between f32 and bf16.
#include "kernels/cuda/base/rows.h"
#include "kernels/cuda/base/run.h"

namespace titan::cuda {
namespace {

template <class X, class Y, int N>
__global__ void __launch_bounds__(kRowThreads)
    cast(const X* x, std::int64_t x_pitch, Y* y, std::int64_t y_pitch, Rows rows) {
  const Part part = part_of<N>(rows);
  if (part.count == 0) return;
  float v[N];
  load_part(x + part.row * x_pitch + part.col, v, part.count);
  store_part(y + part.row * y_pitch + part.col, v, part.count);
}

}  // namespace

void run(const Cast& op, const Context& context) {
  const Rows rows = rows_of({&op.x, &op.y});
  with_parts<kVectorOf<bf16>>(context, rows, {&op.x, &op.y}, [&](auto n, dim3 grid) {
    with_type(op.x.dtype, [&](auto x) {
      with_type(op.y.dtype, [&](auto y) {
        using X = decltype(x);
        using Y = decltype(y);
        launch(cast<X, Y, n.value>, grid, dim3(kRowThreads), 0, context.stream, context.data_as<X>(op.x),
               op.x.pitch, context.data_as<Y>(op.y), op.y.pitch, rows);
      });
    });
  });
}

}  // namespace titan::cuda
