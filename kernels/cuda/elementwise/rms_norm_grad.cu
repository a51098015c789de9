// The gradient of RMSNorm. Each block of threads takes one of `partial`'s blocks of rows, one row (or a few)
// at a time; a thread owns columns, adds their part of dweight in registers, and holds the next rows' vectors
// while it works on these. dy, x and dresidual are read once, dx is written once; a second launch adds the
// blocks' sums.
#include "kernels/cuda/base/amax.h"
#include "kernels/cuda/base/run.h"
#include "kernels/cuda/base/vector.h"

namespace titan::cuda {
namespace {

template <class T>
struct NormGradArgs {
  const T *dy, *x, *weight, *dresidual;
  const float* inv_rms;
  T* dx;
  float* partial;
  unsigned* amax;
  std::int64_t dy_pitch, x_pitch, dresidual_pitch, inv_rms_pitch, dx_pitch, partial_pitch;
  std::int64_t rows, rows_per_block;
  int cols;
};

/// The rows of this block.
template <class T>
__device__ __forceinline__ std::int64_t begin_of(const NormGradArgs<T>& a) {
  return std::int64_t{blockIdx.x} * a.rows_per_block;
}
template <class T>
__device__ __forceinline__ std::int64_t end_of(const NormGradArgs<T>& a) {
  const std::int64_t end = begin_of(a) + a.rows_per_block;
  return end < a.rows ? end : a.rows;
}

/// dx of N elements: (dy·weight − x·along_x)·inv_rms [+ dresidual], along_x = inv_rms²·mean(dy·weight·x).
template <int N>
__device__ __forceinline__ void input_grad(const float (&dy)[N], const float (&x)[N], const float (&w)[N],
                                           const float (&residual)[N], float along_x, float inv_rms,
                                           float (&dx)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) dx[i] = (dy[i] * w[i] - x[i] * along_x) * inv_rms + residual[i];
}

template <int N>
__device__ __forceinline__ float dot(const float (&dy)[N], const float (&x)[N], const float (&w)[N]) {
  float total = 0;
#pragma unroll
  for (int i = 0; i < N; ++i) total += dy[i] * w[i] * x[i];
  return total;
}

// --- Rows that fit into registers
// ------------------------------------------------------------------------------------

__device__ __forceinline__ void widen_all(const float*, uint4 v, float (&x)[4]) {
  x[0] = __uint_as_float(v.x), x[1] = __uint_as_float(v.y);
  x[2] = __uint_as_float(v.z), x[3] = __uint_as_float(v.w);
}
__device__ __forceinline__ void widen_all(const bf16*, uint4 v, float (&x)[8]) {
  const unsigned words[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
  for (int w = 0; w < 4; ++w) {
    x[2 * w] = __uint_as_float(words[w] << 16);
    x[2 * w + 1] = __uint_as_float(words[w] & 0xffff0000u);
  }
}

/// A thread's vectors of `Rows` rows, as they are in memory.
template <int Rows, int Vectors>
struct NormGradInputs {
  uint4 dy[Rows][Vectors], x[Rows][Vectors], residual[Rows][Vectors];
  float inv_rms[Rows];
};

/// Zeros behind the last row and column: they add nothing.
template <class T, int Threads, int Rows, int Vectors>
__device__ __forceinline__ void fetch(const NormGradArgs<T>& a, std::int64_t first_row, std::int64_t end,
                                      NormGradInputs<Rows, Vectors>& in) {
  constexpr int kN = kVectorOf<T>;
#pragma unroll
  for (int r = 0; r < Rows; ++r) {
    const std::int64_t row = first_row + r;
    in.inv_rms[r] = row < end ? a.inv_rms[row * a.inv_rms_pitch] : 0.0f;
#pragma unroll
    for (int v = 0; v < Vectors; ++v) {
      const int col = (static_cast<int>(threadIdx.x) + v * Threads) * kN;
      const bool there = row < end && col < a.cols;
      in.dy[r][v] = in.x[r][v] = in.residual[r][v] = uint4{0, 0, 0, 0};
      if (there) in.dy[r][v] = load_vector<uint4>(a.dy + row * a.dy_pitch + col);
      if (there) in.x[r][v] = load_vector<uint4>(a.x + row * a.x_pitch + col);
      if (there && a.dresidual != nullptr)
        in.residual[r][v] = load_vector<uint4>(a.dresidual + row * a.dresidual_pitch + col);
    }
  }
}

/// Each of `values` summed over the block. One barrier; calls alternate between two of `shared`.
template <int Threads, int Values>
__device__ __forceinline__ void block_sums(float (&values)[Values], float* shared) {
  constexpr int kWarps = Threads / kWarpSize;
#pragma unroll
  for (int i = 0; i < Values; ++i) {
    values[i] = warp_sum(values[i]);
    if (threadIdx.x % kWarpSize == 0) shared[threadIdx.x / kWarpSize * Values + i] = values[i];
  }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < Values; ++i) {
    values[i] = 0;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) values[i] += shared[w * Values + i];
  }
}

template <class T, int Threads, int Rows, int Vectors>
__device__ __forceinline__ void dots(const NormGradInputs<Rows, Vectors>& in, const uint4 (&weight)[Vectors],
                                     float (&sums)[Rows]) {
  constexpr int kN = kVectorOf<T>;
  constexpr const T* kType = nullptr;
#pragma unroll
  for (int r = 0; r < Rows; ++r) {
    sums[r] = 0;
#pragma unroll
    for (int v = 0; v < Vectors; ++v) {
      float dy[kN], x[kN], w[kN];
      widen_all(kType, in.dy[r][v], dy);
      widen_all(kType, in.x[r][v], x);
      widen_all(kType, weight[v], w);
      sums[r] += dot(dy, x, w);
    }
  }
}

template <class T, int Threads, int Rows, int Vectors, bool FindsAmax>
__global__ void __launch_bounds__(Threads) rms_norm_grad(NormGradArgs<T> a) {
  constexpr int kN = kVectorOf<T>, kSums = Threads / kWarpSize * Rows;
  constexpr const T* kType = nullptr;
  TITAN_SHARED(float, shared, 2 * kSums);
  const std::int64_t end = end_of(a);
  uint4 weight[Vectors];
  float dweight[Vectors][kN] = {};
  unsigned most = 0;
#pragma unroll
  for (int v = 0; v < Vectors; ++v) {
    const int col = (static_cast<int>(threadIdx.x) + v * Threads) * kN;
    weight[v] = col < a.cols ? load_vector<uint4>(a.weight + col) : uint4{0, 0, 0, 0};
  }
  NormGradInputs<Rows, Vectors> in, next;
  fetch<T, Threads>(a, begin_of(a), end, next);
  int buffer = 0;
  for (std::int64_t first = begin_of(a); first < end; first += Rows, buffer ^= 1) {
    in = next;
    if (first + Rows < end) fetch<T, Threads>(a, first + Rows, end, next);
    float sums[Rows];
    dots<T, Threads>(in, weight, sums);
    block_sums<Threads>(sums, shared + buffer * kSums);
#pragma unroll
    for (int r = 0; r < Rows; ++r) {
      const float inv_rms = in.inv_rms[r];
      const float along_x = sums[r] / static_cast<float>(a.cols) * inv_rms * inv_rms;
#pragma unroll
      for (int v = 0; v < Vectors; ++v) {
        float dy[kN], x[kN], w[kN], residual[kN], dx[kN];
        widen_all(kType, in.dy[r][v], dy);
        widen_all(kType, in.x[r][v], x);
        widen_all(kType, weight[v], w);
        widen_all(kType, in.residual[r][v], residual);
        input_grad(dy, x, w, residual, along_x, inv_rms, dx);
#pragma unroll
        for (int i = 0; i < kN; ++i) dweight[v][i] += dy[i] * x[i] * inv_rms;
        const int col = (static_cast<int>(threadIdx.x) + v * Threads) * kN;
        if (first + r < end && col < a.cols) {
          store(a.dx + (first + r) * a.dx_pitch + col, dx);
          if constexpr (FindsAmax) keep_largest<T>(dx, most);
        }
      }
    }
  }
#pragma unroll
  for (int v = 0; v < Vectors; ++v) {
    const int col = (static_cast<int>(threadIdx.x) + v * Threads) * kN;
    if (col < a.cols) store(a.partial + blockIdx.x * a.partial_pitch + col, dweight[v]);
  }
  if constexpr (FindsAmax) raise_amax<Threads>(most, a.amax);
}

// --- Any row
// ---------------------------------------------------------------------------------------------------------

constexpr int kAnyThreads = 256;

/// dy and x are read twice, and dweight is added in `partial`.
template <class T, int N, bool FindsAmax>
__global__ void __launch_bounds__(kAnyThreads) rms_norm_grad_of_any(NormGradArgs<T> a) {
  TITAN_SHARED(float, shared, 2 * kAnyThreads / kWarpSize);
  const std::int64_t begin = begin_of(a), end = end_of(a);
  const int first = static_cast<int>(threadIdx.x) * N;
  float* const partial = a.partial + blockIdx.x * a.partial_pitch;
  unsigned most = 0;
  for (std::int64_t row = begin; row < end; ++row) {
    const T *const dys = a.dy + row * a.dy_pitch, *const xs = a.x + row * a.x_pitch;
    const float inv_rms = a.inv_rms[row * a.inv_rms_pitch];
    float dy[N], x[N], w[N], sums[1] = {0};
    for (int col = first; col < a.cols; col += kAnyThreads * N) {
      load(dys + col, dy), load(xs + col, x), load(a.weight + col, w);
      sums[0] += dot(dy, x, w);
    }
    block_sums<kAnyThreads>(sums, shared + (row - begin) % 2 * (kAnyThreads / kWarpSize));
    const float along_x = sums[0] / static_cast<float>(a.cols) * inv_rms * inv_rms;
    for (int col = first; col < a.cols; col += kAnyThreads * N) {
      float residual[N] = {}, dweight[N] = {}, dx[N];
      load(dys + col, dy), load(xs + col, x), load(a.weight + col, w);
      if (a.dresidual != nullptr) load(a.dresidual + row * a.dresidual_pitch + col, residual);
      if (row > begin) load(partial + col, dweight);
      input_grad(dy, x, w, residual, along_x, inv_rms, dx);
#pragma unroll
      for (int i = 0; i < N; ++i) dweight[i] += dy[i] * x[i] * inv_rms;
      store(a.dx + row * a.dx_pitch + col, dx);
      store(partial + col, dweight);
      if constexpr (FindsAmax) keep_largest<T>(dx, most);
    }
  }
  if constexpr (FindsAmax) raise_amax<kAnyThreads>(most, a.amax);
}

// --- The blocks' sums
// ----------------------------------------------------------------------------------------------------

constexpr int kSumWarps = 8;

/// A warp adds an eighth of the blocks for 32 columns, in order; the first one adds the eighths, in order.
__global__ void __launch_bounds__(kSumWarps* kWarpSize)
    sum_blocks(const float* partial, std::int64_t pitch, int blocks, float* dweight, int cols, bool add) {
  TITAN_SHARED(float, parts, kSumWarps* kWarpSize);
  const int lane = threadIdx.x % kWarpSize, part = threadIdx.x / kWarpSize;
  const int col = static_cast<int>(blockIdx.x) * kWarpSize + lane;
  float total = 0;
  if (col < cols) {
    const int end = blocks * (part + 1) / kSumWarps;
#pragma unroll 4
    for (int b = blocks * part / kSumWarps; b < end; ++b) total += partial[b * pitch + col];
  }
  parts[threadIdx.x] = total;
  __syncthreads();
  if (part > 0 || col >= cols) return;
  total = add ? dweight[col] : 0.0f;
#pragma unroll
  for (int p = 0; p < kSumWarps; ++p) total += parts[p * kWarpSize + lane];
  dweight[col] = total;
}

/// Threads, rows at a time and vectors a thread by the vectors of a row: about as many bytes under way in
/// each.
template <class T, int N, bool FindsAmax>
void launch_rows(const NormGradArgs<T>& a, unsigned blocks, cudaStream_t stream) {
  const int vectors = a.cols / N;
  if (N == 1 || vectors > 1024)
    launch(rms_norm_grad_of_any<T, N, FindsAmax>, dim3(blocks), dim3(kAnyThreads), 0, stream, a);
  else if (vectors <= 128)
    launch(rms_norm_grad<T, 128, 4, 1, FindsAmax>, dim3(blocks), dim3(128), 0, stream, a);
  else if (vectors <= 256)
    launch(rms_norm_grad<T, 256, 4, 1, FindsAmax>, dim3(blocks), dim3(256), 0, stream, a);
  else if (vectors <= 512)
    launch(rms_norm_grad<T, 512, 2, 1, FindsAmax>, dim3(blocks), dim3(512), 0, stream, a);
  else
    launch(rms_norm_grad<T, 512, 1, 2, FindsAmax>, dim3(blocks), dim3(512), 0, stream, a);
}

}  // namespace

void run(const RmsNormGrad& op, const Context& context) {
  const std::int64_t rows = op.x.rows, rows_per_block = ceil_div(rows, op.partial.rows);
  const std::int64_t blocks = ceil_div(rows, rows_per_block);
  float* const partial = context.data_as<float>(op.partial);
  unsigned* const amax = start_amax(context, op.amax);
  with_vectors(context, op.x.dtype, {&op.dy, &op.x, &op.weight, &op.dresidual, &op.dx, &op.partial},
               [&](auto t, auto n) {
                 using T = decltype(t);
                 const NormGradArgs<T> a{context.data_as<T>(op.dy),
                                         context.data_as<T>(op.x),
                                         context.data_as<T>(op.weight),
                                         context.data_as<T>(op.dresidual),
                                         context.data_as<float>(op.inv_rms),
                                         context.data_as<T>(op.dx),
                                         partial,
                                         amax,
                                         op.dy.pitch,
                                         op.x.pitch,
                                         op.dresidual.pitch,
                                         op.inv_rms.pitch,
                                         op.dx.pitch,
                                         op.partial.pitch,
                                         rows,
                                         rows_per_block,
                                         static_cast<int>(op.x.cols)};
                 if (amax != nullptr)
                   launch_rows<T, n.value, true>(a, static_cast<unsigned>(blocks), context.stream);
                 else
                   launch_rows<T, n.value, false>(a, static_cast<unsigned>(blocks), context.stream);
               });
  constexpr int kDweight = 5;
  const bool add = !context.overwrites(kDweight + (op.dresidual ? 1 : 0));
  launch(sum_blocks, dim3(static_cast<unsigned>(ceil_div(op.x.cols, kWarpSize))), dim3(kSumWarps * kWarpSize),
         0, context.stream, partial, op.partial.pitch, static_cast<int>(blocks),
         context.data_as<float>(op.dweight), static_cast<int>(op.x.cols), add);
}

}  // namespace titan::cuda
