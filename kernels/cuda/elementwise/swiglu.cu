// SwiGLU and its gradient. One thread N columns of a row; both directions read gate and up once.
#include "kernels/cuda/base/amax.h"
#include "kernels/cuda/base/run.h"
#include "kernels/cuda/base/vector.h"

namespace titan::cuda {
namespace {

constexpr int kThreads = 256;

__device__ __forceinline__ float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }

/// Rows and their pitches, in elements; `cols` is F.
struct Shape {
  std::int64_t rows, cols, gate_up_pitch, y_pitch, dgate_up_pitch;
};

/// This thread's row and first column; false behind the end.
template <int N>
__device__ __forceinline__ bool find_place(const Shape& shape, std::int64_t& row, std::int64_t& col) {
  const std::int64_t vectors = shape.cols / N, index = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  row = index / vectors;
  col = index % vectors * N;
  return row < shape.rows;
}

/// y of this thread's place; raises `most` by what it wrote if asked to.
template <bool FindsAmax, int N, class T>
__device__ __forceinline__ void write(const T* gate_up, T* y, const Shape& shape, unsigned& most) {
  std::int64_t row, col;
  if (!find_place<N>(shape, row, col)) return;
  float gate[N], up[N];
  load(gate_up + row * shape.gate_up_pitch + col, gate);
  load(gate_up + row * shape.gate_up_pitch + shape.cols + col, up);
#pragma unroll
  for (int i = 0; i < N; ++i) up[i] *= gate[i] * sigmoid(gate[i]);
  store(y + row * shape.y_pitch + col, up);
  if constexpr (FindsAmax) keep_largest<T>(up, most);
}

template <class T, int N, bool FindsAmax>
__global__ void __launch_bounds__(kThreads) swiglu(const T* gate_up, T* y, Shape shape, unsigned* amax) {
  unsigned most = 0;
  write<FindsAmax, N>(gate_up, y, shape, most);
  if constexpr (FindsAmax) raise_amax<kThreads>(most, amax);
}

/// d silu(g)/dg = s + g·s·(1 − s), s = sigmoid(g).
template <bool FindsAmax, int N, class T>
__device__ __forceinline__ void write_grad(const T* dy, const T* gate_up, T* dgate_up, const Shape& shape,
                                           unsigned& most) {
  std::int64_t row, col;
  if (!find_place<N>(shape, row, col)) return;
  float d[N], gate[N], up[N];
  load(dy + row * shape.y_pitch + col, d);
  load(gate_up + row * shape.gate_up_pitch + col, gate);
  load(gate_up + row * shape.gate_up_pitch + shape.cols + col, up);
#pragma unroll
  for (int i = 0; i < N; ++i) {
    const float s = sigmoid(gate[i]), silu = gate[i] * s, dsilu = d[i] * up[i];
    up[i] = d[i] * silu;
    gate[i] = dsilu * (s + silu * (1.0f - s));
  }
  store(dgate_up + row * shape.dgate_up_pitch + col, gate);
  store(dgate_up + row * shape.dgate_up_pitch + shape.cols + col, up);
  if constexpr (FindsAmax) keep_largest<T>(gate, most);
  if constexpr (FindsAmax) keep_largest<T>(up, most);
}

template <class T, int N, bool FindsAmax>
__global__ void __launch_bounds__(kThreads)
    swiglu_grad(const T* dy, const T* gate_up, T* dgate_up, Shape shape, unsigned* amax) {
  unsigned most = 0;
  write_grad<FindsAmax, N>(dy, gate_up, dgate_up, shape, most);
  if constexpr (FindsAmax) raise_amax<kThreads>(most, amax);
}

dim3 grid_of(const Shape& shape, int n) {
  return dim3(static_cast<unsigned>(ceil_div(shape.rows * (shape.cols / n), kThreads)));
}

}  // namespace

void run(const SwiGlu& op, const Context& context) {
  const Shape shape{op.y.rows, op.y.cols, op.gate_up.pitch, op.y.pitch, 0};
  unsigned* const amax = start_amax(context, op.amax);
  with_vectors(context, op.y.dtype, {&op.gate_up, &op.y}, [&](auto t, auto n) {
    using T = decltype(t);
    launch(amax != nullptr ? swiglu<T, n.value, true> : swiglu<T, n.value, false>, grid_of(shape, n.value),
           dim3(kThreads), 0, context.stream, context.data_as<T>(op.gate_up), context.data_as<T>(op.y), shape,
           amax);
  });
}

void run(const SwiGluGrad& op, const Context& context) {
  const Shape shape{op.dy.rows, op.dy.cols, op.gate_up.pitch, op.dy.pitch, op.dgate_up.pitch};
  unsigned* const amax = start_amax(context, op.amax);
  with_vectors(context, op.dy.dtype, {&op.dy, &op.gate_up, &op.dgate_up}, [&](auto t, auto n) {
    using T = decltype(t);
    launch(amax != nullptr ? swiglu_grad<T, n.value, true> : swiglu_grad<T, n.value, false>,
           grid_of(shape, n.value), dim3(kThreads), 0, context.stream, context.data_as<T>(op.dy),
           context.data_as<T>(op.gate_up), context.data_as<T>(op.dgate_up), shape, amax);
  });
}

}  // namespace titan::cuda
