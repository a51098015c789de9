// The classifier's loss: statistics of each row of logits, their gradient in place, and the loss.
//
// A block of threads a row. Statistics read the logits once, the gradient reads them once more and writes
// them: 4 + 2 bytes an element in bf16. The last rows that a product wrote are the likeliest to be in the
// second-level cache, so statistics begin with these, and the gradient with those that the statistics read
// last.
#include <cfloat>

#include "kernels/cuda/base/reduce.h"
#include "kernels/cuda/base/run.h"
#include "kernels/cuda/base/vector.h"

namespace titan::cuda {
namespace {

constexpr int kThreads = 512;
constexpr int kAtOnce = 4;  // vectors that a thread reads before it uses the first

/// 2^x; zero where the result is below the smallest normal number.
__device__ __forceinline__ float power_of_two(float x) {
#ifdef __CUDA_ARCH__
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#else
  return exp2f(x);
#endif
}

/// e^x for x <= 0 in two instructions; relative error about (1 + |x|)·2^-23.
__device__ __forceinline__ float exp_of(float x) {
  constexpr float kLog2E = 1.44269504f;
  return power_of_two(x * kLog2E);
}

template <class T>
struct LogitRows {
  const T* logits;
  const std::int32_t* targets;
  std::int64_t pitch, targets_pitch, first_column;
  int cols;
};

// --- Statistics
// ----------------------------------------------------------------------------------------------------------

/// Maximum and Σ exp(x − maximum) of what a thread has seen: the sum follows the maximum as it grows (Milakov
/// and Gimelshein, "Online normalizer calculation for softmax", 2018). NaN is not a maximum, but makes the
/// sum NaN.
struct Softmax {
  float maximum = -FLT_MAX, sum = 0;

  template <int N>
  __device__ __forceinline__ void add(const float (&x)[N]) {
    float most = maximum;
#pragma unroll
    for (int i = 0; i < N; ++i) most = fmaxf(most, x[i]);
    sum *= exp_of(maximum - most);
    maximum = most;
#pragma unroll
    for (int i = 0; i < N; ++i) sum += exp_of(x[i] - most);
  }
};

template <class T, int N>
__device__ __forceinline__ Softmax softmax_of(const T* x, int cols) {
  constexpr int kStep = kThreads * N;
  Softmax own;
  for (int col = static_cast<int>(threadIdx.x) * N; col < cols; col += kAtOnce * kStep) {
    float values[kAtOnce][N];
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k)
      if (col + k * kStep < cols) load(x + col + k * kStep, values[k]);
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k)
      if (col + k * kStep < cols) own.add(values[k]);
  }
  return own;
}

template <class T, int N>
__global__ void __launch_bounds__(kThreads)
    logit_stats(LogitRows<T> a, float* stats, std::int64_t stats_pitch) {
  TITAN_SHARED(float, maxima, kThreads / kWarpSize);
  TITAN_SHARED(float, sums, kThreads / kWarpSize);
  const std::int64_t row = gridDim.x - 1 - blockIdx.x;
  const T* const x = a.logits + row * a.pitch;
  const Softmax own = softmax_of<T, N>(x, a.cols);
  const float maximum = block_max<kThreads>(own.maximum, maxima);
  const float sum = block_sum<kThreads>(own.sum * exp_of(own.maximum - maximum), sums);
  if (threadIdx.x > 0) return;
  const std::int64_t target = a.targets[row * a.targets_pitch] - a.first_column;
  float* const to = stats + row * stats_pitch;
  to[0] = maximum;
  to[1] = sum;
  to[2] = target >= 0 && target < a.cols ? widen(x[target]) : 0.0f;
}

// --- Gradient
// ------------------------------------------------------------------------------------------------------------

/// One row's softmax, divided by the number of tokens.
struct RowGrad {
  float maximum, scale, one;  ///< probability·scale; and what the target's gets less
  std::int64_t target;

  template <int N>
  __device__ __forceinline__ void apply(float (&x)[N], int col) const {
#pragma unroll
    for (int i = 0; i < N; ++i) x[i] = exp_of(x[i] - maximum) * scale;
    if (target < col || target >= col + N) return;
#pragma unroll
    for (int i = 0; i < N; ++i)
      if (col + i == target) x[i] -= one;
  }
};

template <class T, int N>
__device__ __forceinline__ void clear_row(T* to, int cols) {
  const float zeros[N] = {};
  for (int col = static_cast<int>(threadIdx.x) * N; col < cols; col += kThreads * N) store(to + col, zeros);
}

template <class T, int N>
__device__ __forceinline__ void write_grad(const RowGrad& grad, const T* x, T* to, int cols) {
  constexpr int kStep = kThreads * N;
  for (int col = static_cast<int>(threadIdx.x) * N; col < cols; col += kAtOnce * kStep) {
    float values[kAtOnce][N];
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k)
      if (col + k * kStep < cols) load(x + col + k * kStep, values[k]);
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      if (col + k * kStep >= cols) continue;
      grad.apply(values[k], col + k * kStep);
      store(to + col + k * kStep, values[k]);
    }
  }
}

template <class T, int N>
__global__ void __launch_bounds__(kThreads)
    cross_entropy_grad(LogitRows<T> a, const float* stats, std::int64_t stats_pitch,
                       const float* valid_tokens, T* dlogits, std::int64_t dlogits_pitch) {
  const std::int64_t row = blockIdx.x;
  const std::int32_t label = a.targets[row * a.targets_pitch];
  T* const to = dlogits + row * dlogits_pitch;
  if (label < 0) {
    clear_row<T, N>(to, a.cols);
    return;
  }
  const float maximum = stats[row * stats_pitch], sum = stats[row * stats_pitch + 1], valid = *valid_tokens;
  const RowGrad grad{maximum, 1.0f / (sum * valid), 1.0f / valid, label - a.first_column};
  write_grad<T, N>(grad, a.logits + row * a.pitch, to, a.cols);
}

// --- Loss: one block, whose threads add in double precision
// ------------------------------------------------------------------

constexpr int kLossThreads = 1024;

__device__ __forceinline__ double warp_total(double x) {
#pragma unroll
  for (int bits = kWarpSize / 2; bits > 0; bits /= 2) x += __shfl_xor_sync(kFullWarp, x, bits);
  return x;
}

__global__ void __launch_bounds__(kLossThreads)
    cross_entropy_loss(const float* stats, std::int64_t stats_pitch, const std::int32_t* targets,
                       std::int64_t targets_pitch, std::int64_t rows, const float* valid_tokens, float* loss,
                       bool add) {
  TITAN_SHARED(double, partial, kLossThreads / kWarpSize);
  double total = 0;
  for (std::int64_t row = threadIdx.x; row < rows; row += kLossThreads) {
    const float* const s = stats + row * stats_pitch;
    if (targets[row * targets_pitch] >= 0) total += s[0] + log(static_cast<double>(s[1])) - s[2];
  }
  total = warp_total(total);
  if (threadIdx.x % kWarpSize == 0) partial[threadIdx.x / kWarpSize] = total;
  __syncthreads();
  if (threadIdx.x >= kWarpSize) return;
  total = warp_total(partial[threadIdx.x]);
  if (threadIdx.x > 0) return;
  const double mean = total == 0 ? 0 : total / *valid_tokens;
  *loss = static_cast<float>(add ? *loss + mean : mean);
}
static_assert(kLossThreads == kWarpSize * kWarpSize, "the first warp adds the warps' sums");

template <class T, class Op>
LogitRows<T> logit_rows(const Op& op, const Context& context) {
  return {context.data_as<T>(op.logits),
          context.data_as<std::int32_t>(op.targets),
          op.logits.pitch,
          op.targets.pitch,
          op.first_column,
          static_cast<int>(op.logits.cols)};
}

}  // namespace

void run(const LogitStats& op, const Context& context) {
  with_vectors(context, op.logits.dtype, {&op.logits}, [&](auto t, auto n) {
    using T = decltype(t);
    launch(logit_stats<T, n.value>, dim3(static_cast<unsigned>(op.logits.rows)), dim3(kThreads), 0,
           context.stream, logit_rows<T>(op, context), context.data_as<float>(op.stats), op.stats.pitch);
  });
}

void run(const CrossEntropyGrad& op, const Context& context) {
  with_vectors(context, op.logits.dtype, {&op.logits, &op.dlogits}, [&](auto t, auto n) {
    using T = decltype(t);
    launch(cross_entropy_grad<T, n.value>, dim3(static_cast<unsigned>(op.logits.rows)), dim3(kThreads), 0,
           context.stream, logit_rows<T>(op, context), context.data_as<float>(op.stats), op.stats.pitch,
           context.data_as<float>(op.valid_tokens), context.data_as<T>(op.dlogits), op.dlogits.pitch);
  });
}

void run(const CrossEntropyLoss& op, const Context& context) {
  constexpr int kLoss = 3;
  launch(cross_entropy_loss, dim3(1), dim3(kLossThreads), 0, context.stream, context.data_as<float>(op.stats),
         op.stats.pitch, context.data_as<std::int32_t>(op.targets), op.targets.pitch, op.stats.rows,
         context.data_as<float>(op.valid_tokens), context.data_as<float>(op.loss),
         !context.overwrites(kLoss));
}

}  // namespace titan::cuda
