// What surrounds attention row by row: merging partial results, the softmax correction of the backward, and
// writing into a key/value cache. The first two give a head of a row to as many lanes of one warp as its
// vectors need; the last one gives each thread N columns. All read and write every element once.
#include "kernels/cuda/base/divide.h"
#include "kernels/cuda/base/reduce.h"
#include "kernels/cuda/base/run.h"
#include "kernels/cuda/base/vector.h"

namespace titan::cuda {
namespace {

constexpr int kThreads = 256;

/// Heads of rows, each of `lanes` neighbouring lanes: a power of two, at most 32.
struct HeadShape {
  std::int64_t rows;
  int heads, head_dim, lanes;
};

/// This thread's row, head and lane in it. Beyond the last row it must do nothing but meet the others of its
/// warp.
struct HeadPlace {
  std::int64_t row;
  int head, lane;
  bool exists;

  __device__ explicit HeadPlace(const HeadShape& shape) {
    const int group = static_cast<int>(threadIdx.x) / shape.lanes;
    const auto [r, h] = divide(std::int64_t{blockIdx.x} * (kThreads / shape.lanes) + group, shape.heads);
    row = r, head = h;
    lane = static_cast<int>(threadIdx.x) % shape.lanes;
    exists = row < shape.rows;
  }
};

HeadShape head_shape(std::int64_t rows, std::int64_t heads, int head_dim, int n) {
  int lanes = 1;
  while (lanes < kWarpSize && lanes * n < head_dim) lanes *= 2;
  return {rows, static_cast<int>(heads), head_dim, lanes};
}

dim3 grid_of(const HeadShape& shape) {
  return dim3(static_cast<unsigned>(ceil_div(shape.rows * shape.heads, kThreads / shape.lanes)));
}

// --- MergeLse
// ------------------------------------------------------------------------------------------------------------

template <class T>
struct MergeArgs {
  const T *out_a, *out_b;
  const float *lse_a, *lse_b;
  T* out;
  float* lse;
  std::int64_t out_a_pitch, out_b_pitch, lse_a_pitch, lse_b_pitch, out_pitch, lse_pitch;
  HeadShape shape;
};

/// What each side counts, and the logarithm of both sums together. Sides that have seen no key have −inf.
struct Weights {
  float a, b, lse;

  __device__ Weights(float lse_a, float lse_b) {
    const float high = fmaxf(lse_a, lse_b);
    const bool empty = high == -INFINITY;
    const float part_a = empty ? 0.0f : expf(lse_a - high), part_b = empty ? 0.0f : expf(lse_b - high);
    const float total = part_a + part_b, inverse = empty ? 0.0f : 1.0f / total;
    a = part_a * inverse;
    b = part_b * inverse;
    lse = empty ? -INFINITY : high + logf(total);
  }
};

/// lse may have the memory of lse_a: no lane writes it before all have read.
template <class T, int N>
__global__ void __launch_bounds__(kThreads) merge_lse(MergeArgs<T> args) {
  const HeadPlace at(args.shape);
  const float lse_a = at.exists ? args.lse_a[at.row * args.lse_a_pitch + at.head] : 0.0f;
  const float lse_b = at.exists ? args.lse_b[at.row * args.lse_b_pitch + at.head] : 0.0f;
  const Weights weights(lse_a, lse_b);
  __syncwarp();
  if (!at.exists) return;
  if (at.lane == 0) args.lse[at.row * args.lse_pitch + at.head] = weights.lse;
  const int first = at.head * args.shape.head_dim;
  for (int i = at.lane * N; i < args.shape.head_dim; i += args.shape.lanes * N) {
    float a[N], b[N];
    load(args.out_a + at.row * args.out_a_pitch + first + i, a);
    load(args.out_b + at.row * args.out_b_pitch + first + i, b);
#pragma unroll
    for (int k = 0; k < N; ++k) a[k] = a[k] * weights.a + b[k] * weights.b;
    store(args.out + at.row * args.out_pitch + first + i, a);
  }
}

// --- AttentionDelta
// ------------------------------------------------------------------------------------------------------

template <class T, int N>
__global__ void __launch_bounds__(kThreads)
    attention_delta(const T* dout, std::int64_t dout_pitch, const T* out, std::int64_t out_pitch,
                    float* delta, std::int64_t delta_pitch, HeadShape shape) {
  const HeadPlace at(shape);
  const int first = at.head * shape.head_dim;
  float total = 0;
  for (int i = at.lane * N; at.exists && i < shape.head_dim; i += shape.lanes * N) {
    float a[N], b[N];
    load(dout + at.row * dout_pitch + first + i, a);
    load(out + at.row * out_pitch + first + i, b);
#pragma unroll
    for (int k = 0; k < N; ++k) total += a[k] * b[k];
  }
  for (int bits = shape.lanes / 2; bits > 0; bits /= 2) total += __shfl_xor_sync(kFullWarp, total, bits);
  if (at.exists && at.lane == 0) delta[at.row * delta_pitch + at.head] = total;
}

// --- CacheWrite
// ----------------------------------------------------------------------------------------------------------

template <class T>
struct CacheArgs {
  const T* x;
  const std::int32_t* positions;
  T* cache;
  std::int64_t x_pitch, positions_pitch, cache_pitch;
  std::int64_t rows, length, capacity;  ///< rows of x; of a sequence in x, and in the cache
  int cols;
};

/// Positions are below the capacity.
template <class T, int N>
__global__ void __launch_bounds__(kThreads) cache_write(CacheArgs<T> a) {
  const auto [row, vector] = divide(std::int64_t{blockIdx.x} * kThreads + threadIdx.x, a.cols / N);
  if (row >= a.rows) return;
  const std::int32_t position = a.positions[row * a.positions_pitch];
  if (position < 0) return;
  float x[N];
  load(a.x + row * a.x_pitch + vector * N, x);
  store(a.cache + (row / a.length * a.capacity + position) * a.cache_pitch + vector * N, x);
}

/// Calls f(T{}, Int<N>{}) as with_vectors, where heads too begin at vectors.
template <class F>
void with_head_vectors(const Context& context, int head_dim, const Operand& like,
                       std::initializer_list<const Operand*> operands, F f) {
  with_type(like.dtype, [&](auto t) {
    constexpr int kFull = kVectorOf<decltype(t)>;
    if (head_dim % kFull == 0 && rows_are_vectors(context, kFull, operands))
      f(t, Int<kFull>{});
    else
      f(t, Int<1>{});
  });
}

}  // namespace

void run(const MergeLse& op, const Context& context) {
  with_head_vectors(context, op.head_dim, op.out, {&op.out_a, &op.out_b, &op.out}, [&](auto t, auto n) {
    using T = decltype(t);
    const MergeArgs<T> a{context.data_as<T>(op.out_a),
                         context.data_as<T>(op.out_b),
                         context.data_as<float>(op.lse_a),
                         context.data_as<float>(op.lse_b),
                         context.data_as<T>(op.out),
                         context.data_as<float>(op.lse),
                         op.out_a.pitch,
                         op.out_b.pitch,
                         op.lse_a.pitch,
                         op.lse_b.pitch,
                         op.out.pitch,
                         op.lse.pitch,
                         head_shape(op.out.rows, op.lse.cols, op.head_dim, n.value)};
    launch(merge_lse<T, n.value>, grid_of(a.shape), dim3(kThreads), 0, context.stream, a);
  });
}

void run(const AttentionDelta& op, const Context& context) {
  with_head_vectors(context, op.head_dim, op.out, {&op.dout, &op.out}, [&](auto t, auto n) {
    using T = decltype(t);
    const HeadShape shape = head_shape(op.out.rows, op.delta.cols, op.head_dim, n.value);
    launch(attention_delta<T, n.value>, grid_of(shape), dim3(kThreads), 0, context.stream,
           context.data_as<T>(op.dout), op.dout.pitch, context.data_as<T>(op.out), op.out.pitch,
           context.data_as<float>(op.delta), op.delta.pitch, shape);
  });
}

void run(const CacheWrite& op, const Context& context) {
  with_vectors(context, op.x.dtype, {&op.x, &op.cache}, [&](auto t, auto n) {
    using T = decltype(t);
    const CacheArgs<T> a{context.data_as<T>(op.x),
                         context.data_as<std::int32_t>(op.positions),
                         context.data_as<T>(op.cache),
                         op.x.pitch,
                         op.positions.pitch,
                         op.cache.pitch,
                         op.x.rows,
                         op.x.rows / op.sequences,
                         op.cache.rows / op.sequences,
                         static_cast<int>(op.x.cols)};
    launch(cache_write<T, n.value>,
           dim3(static_cast<unsigned>(ceil_div(a.rows * (a.cols / n.value), kThreads))), dim3(kThreads), 0,
           context.stream, a);
  });
}

}  // namespace titan::cuda
