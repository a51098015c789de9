// y = a + b: one thread eight elements, read before they are written (y may be a or b).
#include "kernels/cuda/base/rows.h"
#include "kernels/cuda/base/run.h"

namespace titan::cuda {
namespace {

template <class A, class B, class Y, int N>
__global__ void __launch_bounds__(kRowThreads)
    add(const A* a, std::int64_t a_pitch, const B* b, std::int64_t b_pitch, Y* y, std::int64_t y_pitch,
        Rows rows) {
  const Part part = part_of<N>(rows);
  if (part.count == 0) return;
  float left[N] = {}, right[N] = {};
  load_part(a + part.row * a_pitch + part.col, left, part.count);
  load_part(b + part.row * b_pitch + part.col, right, part.count);
#pragma unroll
  for (int i = 0; i < N; ++i) left[i] += right[i];
  store_part(y + part.row * y_pitch + part.col, left, part.count);
}

}  // namespace

void run(const Add& op, const Context& context) {
  const Rows rows = rows_of({&op.y, &op.a, &op.b});
  with_parts<kVectorOf<bf16>>(context, rows, {&op.a, &op.b, &op.y}, [&](auto n, dim3 grid) {
    with_type(op.a.dtype, [&](auto a) {
      with_type(op.b.dtype, [&](auto b) {
        with_type(op.y.dtype, [&](auto y) {
          using A = decltype(a);
          using B = decltype(b);
          using Y = decltype(y);
          launch(add<A, B, Y, n.value>, grid, dim3(kRowThreads), 0, context.stream, context.data_as<A>(op.a),
                 op.a.pitch, context.data_as<B>(op.b), op.b.pitch, context.data_as<Y>(op.y), op.y.pitch,
                 rows);
        });
      });
    });
  });
}

}  // namespace titan::cuda
