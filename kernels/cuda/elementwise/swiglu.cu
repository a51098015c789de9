// SwiGLU and its gradient: gate and up are read once. A thread takes N columns of a row; where 8-bit rows are
// found, a block takes a row, keeps what it wrote in registers (all of it up to F = 16384), and the largest
// magnitude makes codes of them.
#include "kernels/cuda/base/amax.h"
#include "kernels/cuda/base/codes.h"
#include "kernels/cuda/base/run.h"
#include "kernels/cuda/base/vector.h"

namespace titan::cuda {
namespace {

constexpr int kThreads = 256;

__device__ __forceinline__ float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }

/// What both directions find of their result.
struct Found {
  unsigned* amax;
  std::uint8_t* quantized;
  float* scale;
  std::int64_t quantized_pitch;
};

/// y [rows, cols] of gate_up [rows, 2 cols].
template <class T>
struct Forward {
  using Type = T;
  static constexpr int kResults = 1;  ///< matrices of `cols` columns, side by side
  static constexpr int kRowThreads = 256;

  const T* gate_up;
  T* result;
  std::int64_t rows, cols, gate_up_pitch, result_pitch;
  Found found;

  template <int N>
  __device__ __forceinline__ void at(std::int64_t row, std::int64_t col, float (&y)[1][N]) const {
    float gate[N];
    load(gate_up + row * gate_up_pitch + col, gate);
    load(gate_up + row * gate_up_pitch + cols + col, y[0]);
#pragma unroll
    for (int i = 0; i < N; ++i) y[0][i] *= gate[i] * sigmoid(gate[i]);
  }
};

/// dgate_up [rows, 2 cols] of dy [rows, cols] and gate_up.
/// d silu(g)/dg = s + g·s·(1 − s), s = sigmoid(g).
template <class T>
struct Gradient {
  using Type = T;
  static constexpr int kResults = 2;
  static constexpr int kRowThreads = 512;

  const T *dy, *gate_up;
  T* result;
  std::int64_t rows, cols, dy_pitch, gate_up_pitch, result_pitch;
  Found found;

  template <int N>
  __device__ __forceinline__ void at(std::int64_t row, std::int64_t col, float (&d)[2][N]) const {
    float dout[N];
    load(dy + row * dy_pitch + col, dout);
    load(gate_up + row * gate_up_pitch + col, d[0]);
    load(gate_up + row * gate_up_pitch + cols + col, d[1]);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const float gate = d[0][i], s = sigmoid(gate), silu = gate * s, dsilu = dout[i] * d[1][i];
      d[1][i] = dout[i] * silu;
      d[0][i] = dsilu * (s + silu * (1.0f - s));
    }
  }
};

template <class Direction, int N>
__device__ __forceinline__ void write(const Direction& a, std::int64_t row, std::int64_t col,
                                      float (&results)[Direction::kResults][N]) {
  a.at(row, col, results);
#pragma unroll
  for (int r = 0; r < Direction::kResults; ++r)
    store(a.result + row * a.result_pitch + r * a.cols + col, results[r]);
}

template <class Direction, int N, bool FindsAmax>
__global__ void __launch_bounds__(kThreads) swiglu(Direction a) {
  using T = typename Direction::Type;
  const std::int64_t vectors = a.cols / N, index = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  const std::int64_t row = index / vectors, col = index % vectors * N;
  unsigned most = 0;
  if (row < a.rows) {
    float results[Direction::kResults][N];
    write(a, row, col, results);
    if constexpr (FindsAmax)
      for (const auto& result : results) keep_largest<T>(result, most);
  }
  if constexpr (FindsAmax) raise_amax<kThreads>(most, a.found.amax);
}

/// Writes one row, and in 8 bits.
template <class Direction, int N>
__global__ void __launch_bounds__(Direction::kRowThreads) swiglu_rows(Direction a) {
  using T = typename Direction::Type;
  constexpr int kResults = Direction::kResults, kBlock = Direction::kRowThreads;
  constexpr int kKept = N == 1 ? 8 : 64 / (N * kResults);  // vectors of each result
  TITAN_SHARED(unsigned, largest, kBlock / kWarpSize);
  const std::int64_t row = blockIdx.x, first = std::int64_t{threadIdx.x} * N;
  const std::int64_t rest = first + std::int64_t{kKept} * kBlock * N;
  T* const result = a.result + row * a.result_pitch;

  float kept[kKept][kResults][N];
  unsigned most = 0;
#pragma unroll
  for (int k = 0; k < kKept; ++k) {
    const std::int64_t col = first + std::int64_t{k} * kBlock * N;
    if (col >= a.cols) continue;
    write(a, row, col, kept[k]);
#pragma unroll
    for (int r = 0; r < kResults; ++r) {
      round_to<T>(kept[k][r]);
      keep_largest<float>(kept[k][r], most);
    }
  }
  for (std::int64_t col = rest; col < a.cols; col += kBlock * N) {
    float results[kResults][N];
    write(a, row, col, results);
    for (const auto& x : results) keep_largest<T>(x, most);
  }

  const float factor = row_factor<DType::f8e4m3>(block_max<kBlock>(most, largest));
  if (threadIdx.x == 0) a.found.scale[row] = 1.0f / factor;
  std::uint8_t* const codes = a.found.quantized + row * a.found.quantized_pitch;
#pragma unroll
  for (int k = 0; k < kKept; ++k) {
    const std::int64_t col = first + std::int64_t{k} * kBlock * N;
    if (col >= a.cols) continue;
#pragma unroll
    for (int r = 0; r < kResults; ++r) store_scaled(codes + r * a.cols + col, kept[k][r], factor);
  }
  for (std::int64_t col = rest; col < a.cols; col += kBlock * N)
    for (int r = 0; r < kResults; ++r) {
      float x[N];
      load(result + r * a.cols + col, x);
      store_scaled(codes + r * a.cols + col, x, factor);
    }
}

template <int N, class Direction>
void launch_swiglu(const Direction& a, cudaStream_t stream) {
  if (a.found.quantized != nullptr) {
    launch(swiglu_rows<Direction, N>, dim3(static_cast<unsigned>(a.rows)), dim3(Direction::kRowThreads), 0,
           stream, a);
    return;
  }
  const dim3 grid(static_cast<unsigned>(ceil_div(a.rows * (a.cols / N), kThreads)));
  launch(a.found.amax != nullptr ? swiglu<Direction, N, true> : swiglu<Direction, N, false>, grid,
         dim3(kThreads), 0, stream, a);
}

template <class SwiGluOp>
Found found_by(const SwiGluOp& op, const Context& context) {
  return {start_amax(context, op.amax), context.data_as<std::uint8_t>(op.quantized),
          context.data_as<float>(op.scale), op.quantized.pitch};
}

}  // namespace

void run(const SwiGlu& op, const Context& context) {
  const Found found = found_by(op, context);
  with_vectors(context, op.y.dtype, {&op.gate_up, &op.y}, op.quantized, [&](auto t, auto n) {
    using T = decltype(t);
    launch_swiglu<n.value>(Forward<T>{context.data_as<T>(op.gate_up), context.data_as<T>(op.y), op.y.rows,
                                      op.y.cols, op.gate_up.pitch, op.y.pitch, found},
                           context.stream);
  });
}

void run(const SwiGluGrad& op, const Context& context) {
  const Found found = found_by(op, context);
  with_vectors(context, op.dy.dtype, {&op.dy, &op.gate_up, &op.dgate_up}, op.quantized, [&](auto t, auto n) {
    using T = decltype(t);
    launch_swiglu<n.value>(Gradient<T>{context.data_as<T>(op.dy), context.data_as<T>(op.gate_up),
                                       context.data_as<T>(op.dgate_up), op.dy.rows, op.dy.cols, op.dy.pitch,
                                       op.gate_up.pitch, op.dgate_up.pitch, found},
                           context.stream);
  });
}

}  // namespace titan::cuda
