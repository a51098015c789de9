// RMSNorm with the residual sum. 32, 256 or 1024 threads a row by its length; each keeps 16 elements in
// registers between the two passes, so that rows of up to 16384 elements are read once: x (and delta) in,
// (sum and) y out. Of longer rows the rest is read again. 8-bit rows come from the same registers.
#include "kernels/cuda/base/amax.h"
#include "kernels/cuda/base/codes.h"
#include "kernels/cuda/base/run.h"
#include "kernels/cuda/base/vector.h"

namespace titan::cuda {
namespace {

/// Elements a thread keeps. One at a time they need more registers.
template <int N>
constexpr int kKept = N == 1 ? 8 : 16;
constexpr int kMinBlock = 256;  // threads; a block of short rows has several

template <class T>
struct NormArgs {
  const T *x, *delta, *weight;
  T *sum, *y;
  float* inv_rms;
  unsigned* amax;
  std::uint8_t* quantized;
  float* scale;
  std::int64_t x_pitch, delta_pitch, sum_pitch, y_pitch, inv_rms_pitch, quantized_pitch;
  std::int64_t rows;
  int cols;
  float epsilon;
};

/// One row's pointers.
template <class T>
struct NormRow {
  const T *x, *delta;
  T *sum, *y;

  __device__ NormRow(const NormArgs<T>& a, std::int64_t row)
      : x(a.x + row * a.x_pitch),
        delta(a.delta != nullptr ? a.delta + row * a.delta_pitch : nullptr),
        sum(a.sum + row * a.sum_pitch),
        y(a.y + row * a.y_pitch) {}
};

/// v = v + d as the sum holds it; writes it.
template <class T, int N>
__device__ __forceinline__ void add_residual(float (&v)[N], const float (&d)[N], T* sum) {
#pragma unroll
  for (int i = 0; i < N; ++i) v[i] = widen(narrow<T>(v[i] + d[i]));
  store(sum, v);
}

template <int N>
__device__ __forceinline__ float squares(const float (&v)[N]) {
  float total = 0;
#pragma unroll
  for (int i = 0; i < N; ++i) total += v[i] * v[i];
  return total;
}

/// Leaves y in v, rounded where rows are found.
template <Finds Find, class T, int N>
__device__ __forceinline__ void normalize(float (&v)[N], float inv_rms, const T* weight, T* y,
                                          unsigned& most) {
  float w[N];
  load(weight, w);
#pragma unroll
  for (int i = 0; i < N; ++i) v[i] *= inv_rms * w[i];
  store(y, v);
  if constexpr (Find == Finds::amax) keep_largest<T>(v, most);
  if constexpr (Find == Finds::rows) {
    round_to<T>(v);
    keep_largest<float>(v, most);
  }
}

/// The elements that are kept: all of them are read before any is written.
template <class T, int N, int Threads, int Kept>
__device__ __forceinline__ float read_kept(const NormRow<T>& row, int first, int cols, float (&v)[Kept][N]) {
  float delta[Kept][N], total = 0;
#pragma unroll
  for (int k = 0; k < Kept; ++k) {
    const int col = first + k * Threads * N;
    if (col < cols) load(row.x + col, v[k]);
    if (col < cols && row.delta != nullptr) load(row.delta + col, delta[k]);
  }
#pragma unroll
  for (int k = 0; k < Kept; ++k) {
    const int col = first + k * Threads * N;
    if (col >= cols) continue;
    if (row.delta != nullptr) add_residual(v[k], delta[k], row.sum + col);
    total += squares(v[k]);
  }
  return total;
}

template <class T, int N, int Threads>
__device__ __forceinline__ float read_rest(const NormRow<T>& row, int first, int cols) {
  float total = 0, v[N], delta[N];
  for (int col = first; col < cols; col += Threads * N) {
    load(row.x + col, v);
    if (row.delta != nullptr) {
      load(row.delta + col, delta);
      add_residual(v, delta, row.sum + col);
    }
    total += squares(v);
  }
  return total;
}

/// The 8-bit row, whose largest magnitude is `most`. `kept`: what of y is in registers.
template <int N, int Threads, class T, int Kept>
__device__ __forceinline__ void write_codes(const NormArgs<T>& a, std::int64_t index, int first,
                                            unsigned most, const T* y, float (&kept)[Kept][N]) {
  std::uint8_t* const codes = a.quantized + index * a.quantized_pitch;
  const float factor = row_factor<DType::f8e4m3>(most);
  if (first == 0) a.scale[index] = 1.0f / factor;
#pragma unroll
  for (int k = 0; k < Kept; ++k) {
    const int col = first + k * Threads * N;
    if (col < a.cols) store_scaled(codes + col, kept[k], factor);
  }
  for (int col = first + Kept * Threads * N; col < a.cols; col += Threads * N) {
    float v[N];
    load(y + col, v);
    store_scaled(codes + col, v, factor);
  }
}

/// Raises `most` by this thread's part of y if that is asked for.
template <Finds Find, int N, int Threads, class T>
__device__ __forceinline__ void norm_row(const NormArgs<T>& a, std::int64_t index, unsigned& most) {
  constexpr int kVectors = kKept<N> / N;
  TITAN_SHARED(float, partial, Threads / kWarpSize);
  const int first = static_cast<int>(threadIdx.x) % Threads * N, rest = first + kKept<N> * Threads;
  const NormRow<T> row(a, index);

  float kept[kVectors][N];
  float total = read_kept<T, N, Threads>(row, first, a.cols, kept);
  total += read_rest<T, N, Threads>(row, rest, a.cols);
  total = block_sum<Threads>(total, partial);
  const float inv_rms = 1.0f / sqrtf(total / static_cast<float>(a.cols) + a.epsilon);
  if (first == 0) a.inv_rms[index * a.inv_rms_pitch] = inv_rms;

#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    const int col = first + k * Threads * N;
    if (col < a.cols) normalize<Find>(kept[k], inv_rms, a.weight + col, row.y + col, most);
  }
  const T* const normed = row.delta != nullptr ? row.sum : row.x;
  for (int col = rest; col < a.cols; col += Threads * N) {
    float v[N];
    load(normed + col, v);
    normalize<Find>(v, inv_rms, a.weight + col, row.y + col, most);
  }
  if constexpr (Find == Finds::rows) {
    TITAN_SHARED(unsigned, largest, Threads / kWarpSize);
    write_codes<N, Threads>(a, index, first, block_max<Threads>(most, largest), row.y, kept);
  }
}

/// Threads of a block whose rows take `Threads` each.
template <int Threads>
constexpr int kBlock = Threads < kMinBlock ? kMinBlock : Threads;

/// Blocks that must fit a multiprocessor; 0 leaves it to ptxas, which for unaligned rows would rather spill.
template <int N>
constexpr int kMinBlocks = N == 1 ? 1 : 0;

template <class T, int N, int Threads, Finds Find>
__global__ void __launch_bounds__(kBlock<Threads>, kMinBlocks<N>) rms_norm(NormArgs<T> a) {
  const std::int64_t index = std::int64_t{blockIdx.x} * (kBlock<Threads> / Threads) + threadIdx.x / Threads;
  unsigned most = 0;
  if (index < a.rows) norm_row<Find, N, Threads>(a, index, most);  // a row of one warp: no barrier
  if constexpr (Find == Finds::amax) raise_amax<kBlock<Threads>>(most, a.amax);
}

template <class T, int N, int Threads>
void launch_rows(const NormArgs<T>& a, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>(ceil_div(a.rows, kBlock<Threads> / Threads));
  auto* const kernel = a.amax != nullptr        ? rms_norm<T, N, Threads, Finds::amax>
                       : a.quantized != nullptr ? rms_norm<T, N, Threads, Finds::rows>
                                                : rms_norm<T, N, Threads, Finds::nothing>;
  launch(kernel, dim3(blocks), dim3(kBlock<Threads>), 0, stream, a);
}

}  // namespace

void run(const RmsNorm& op, const Context& context) {
  unsigned* const amax = start_amax(context, op.amax);
  with_vectors(context, op.x.dtype, {&op.x, &op.delta, &op.weight, &op.sum, &op.y}, op.quantized,
               [&](auto t, auto n) {
                 using T = decltype(t);
                 const NormArgs<T> a{context.data_as<T>(op.x),
                                     context.data_as<T>(op.delta),
                                     context.data_as<T>(op.weight),
                                     context.data_as<T>(op.sum),
                                     context.data_as<T>(op.y),
                                     context.data_as<float>(op.inv_rms),
                                     amax,
                                     context.data_as<std::uint8_t>(op.quantized),
                                     context.data_as<float>(op.scale),
                                     op.x.pitch,
                                     op.delta.pitch,
                                     op.sum.pitch,
                                     op.y.pitch,
                                     op.inv_rms.pitch,
                                     op.quantized.pitch,
                                     op.x.rows,
                                     static_cast<int>(op.x.cols),
                                     op.epsilon};
                 if (a.cols <= kKept<n.value> * 32)
                   launch_rows<T, n.value, 32>(a, context.stream);
                 else if (a.cols <= kKept<n.value> * 256)
                   launch_rows<T, n.value, 256>(a, context.stream);
                 else
                   launch_rows<T, n.value, 1024>(a, context.stream);
               });
}

}  // namespace titan::cuda
