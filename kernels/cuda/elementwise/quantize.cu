// Amax and Quantize. Amax reads x once. One factor for the whole tensor: x is read once, and y and its
// transpose are written from the same tile of 64 x 64 in shared memory (2 + 1 + 1 bytes an element of bf16).
// One factor a row: a block reads its row twice, the second time from the cache; the factors of columns take
// a pass of their own.
#include "kernels/cuda/base/amax.h"
#include "kernels/cuda/base/codes.h"
#include "kernels/cuda/base/rows.h"
#include "kernels/cuda/base/run.h"

namespace titan::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kTile = 64;
constexpr int kTilePitch = kTile + 4;  // bytes; a word more: columns of a tile start in different banks

// --- Amax
// ----------------------------------------------------------------------------------------------------------

/// `amax` starts as 0.
template <class T, int N>
__global__ void __launch_bounds__(kThreads)
    tensor_amax(const T* x, std::int64_t pitch, Rows shape, unsigned* amax) {
  const Part part = part_of<N>(shape);
  float v[N] = {};
  load_part(x + part.row * pitch + part.col, v, part.count);
  unsigned most = 0;
  keep_largest<float>(v, most);  // as x holds them
  raise_amax<kThreads>(most, amax);
}

// --- One factor for the tensor, or one a column of x
// ---------------------------------------------------------------

struct QuantizeArgs {
  const void* x;
  const float* amax;  ///< null: a factor a row
  std::uint8_t *y, *y_transposed;
  float *scale, *scale_transposed;
  std::int64_t x_pitch, y_pitch, y_transposed_pitch;
  std::int64_t rows, cols;
  bool wide_transpose;  ///< rows of y_transposed take stores of 8 bytes
};

/// Both outputs of a tile of x; y only of tensorwise factors.
template <class T, int N, DType Type>
__global__ void __launch_bounds__(kThreads) quantize_tiles(QuantizeArgs a) {
  TITAN_SHARED(std::uint8_t, tile, kTile * kTilePitch);  // [column][row]
  const std::int64_t row0 = std::int64_t{blockIdx.y} * kTile, col0 = std::int64_t{blockIdx.x} * kTile;
  const T* const x = static_cast<const T*>(a.x);
  float factor = 0;
  if (a.amax != nullptr) {
    factor = float8_factor(Type, *a.amax);
    if (blockIdx.x == 0 && blockIdx.y == 0 && threadIdx.x == 0) *a.scale = 1.0f / factor;
  }
  constexpr int kVectors = kTile / N;  // of a row
  for (int i = static_cast<int>(threadIdx.x); i < kTile * kVectors; i += kThreads) {
    const int r = i / kVectors, c = i % kVectors * N;
    const std::int64_t row = row0 + r, col = col0 + c, left = a.cols - col;
    if (row >= a.rows || left <= 0) continue;
    const int count = left < N ? static_cast<int>(left) : N;
    float v[N] = {};
    load_part(x + row * a.x_pitch + col, v, count);
#pragma unroll
    for (int j = 0; j < N; ++j) {
      const float f = a.amax != nullptr ? factor : (j < count ? 1.0f / a.scale_transposed[col + j] : 0.0f);
      v[j] *= f;
    }
    if (a.amax != nullptr && a.y != nullptr) store_codes<Type>(a.y + row * a.y_pitch + col, v, count);
    if (a.y_transposed == nullptr) continue;
    for (int j = 0; j < count; ++j)
      tile[(c + j) * kTilePitch + r] = static_cast<std::uint8_t>(codes<Type>(v[j], 0) & 0xffu);
  }
  if (a.y_transposed == nullptr) return;
  __syncthreads();
  constexpr int kRun = 8;
  for (int i = static_cast<int>(threadIdx.x); i < kTile * (kTile / kRun); i += kThreads) {
    const int c = i / (kTile / kRun), r = i % (kTile / kRun) * kRun;
    const std::int64_t col = col0 + c, left = a.rows - (row0 + r);
    if (col >= a.cols || left <= 0) continue;
    const std::uint8_t* const from = tile + c * kTilePitch + r;
    std::uint8_t* const to = a.y_transposed + col * a.y_transposed_pitch + row0 + r;
    if (a.wide_transpose && left >= kRun) {
      // Rows of the tile start at multiples of 4.
      store_vector(to, uint2{load_vector<unsigned>(from), load_vector<unsigned>(from + 4)});
      continue;
    }
    for (int j = 0; j < kRun && j < left; ++j) to[j] = from[j];
  }
}

// --- One factor a row
// ----------------------------------------------------------------------------------------------

/// A block a row.
template <class T, int N, DType Type>
__global__ void __launch_bounds__(kThreads) quantize_rows(QuantizeArgs a) {
  TITAN_SHARED(unsigned, partial, kThreads / kWarpSize);
  const std::int64_t row = blockIdx.x;
  const T* const x = static_cast<const T*>(a.x) + row * a.x_pitch;
  unsigned most = 0;
  for (std::int64_t col = std::int64_t{threadIdx.x} * N; col < a.cols; col += kThreads * N) {
    const std::int64_t left = a.cols - col;
    float v[N] = {};
    load_part(x + col, v, left < N ? static_cast<int>(left) : N);
    keep_largest<float>(v, most);
  }
  most = block_max<kThreads>(most, partial);
  const float factor = row_factor<Type>(most);
  if (threadIdx.x == 0) a.scale[row] = 1.0f / factor;
  for (std::int64_t col = std::int64_t{threadIdx.x} * N; col < a.cols; col += kThreads * N) {
    const std::int64_t left = a.cols - col;
    const int count = left < N ? static_cast<int>(left) : N;
    float v[N] = {};
    load_part(x + col, v, count);
#pragma unroll
    for (int j = 0; j < N; ++j) v[j] *= factor;
    store_codes<Type>(a.y + row * a.y_pitch + col, v, count);
  }
}

constexpr int kStripRows = 128;  // of x, that a block of column_amax reads

/// Largest magnitudes of columns, as bits, into scale_transposed, which starts as 0. A thread a column.
template <class T>
__global__ void __launch_bounds__(kThreads) column_amax(QuantizeArgs a) {
  const std::int64_t col = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (col >= a.cols) return;
  const std::int64_t begin = std::int64_t{blockIdx.y} * kStripRows, end = begin + kStripRows;
  const T* const x = static_cast<const T*>(a.x) + col;
  unsigned most = 0;
  for (std::int64_t row = begin; row < end && row < a.rows; ++row)
    most = larger(most, magnitude(widen(x[row * a.x_pitch])));
  atomicMax(reinterpret_cast<unsigned*>(a.scale_transposed) + col, most);
}

/// Turns them into scales.
template <DType Type>
__global__ void __launch_bounds__(kThreads) column_scales(float* scales, std::int64_t cols) {
  const std::int64_t col = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (col < cols) scales[col] = 1.0f / row_factor<Type>(__float_as_uint(scales[col]));
}

// --- On the host
// ---------------------------------------------------------------------------------------------------

unsigned blocks(std::int64_t work, std::int64_t each) { return static_cast<unsigned>(ceil_div(work, each)); }

template <DType Type, class T, int N>
void quantize(const Quantize& op, const Context& context, QuantizeArgs a) {
  const dim3 tiles(blocks(a.cols, kTile), blocks(a.rows, kTile));
  if (a.amax == nullptr && a.y != nullptr)
    launch(quantize_rows<T, N, Type>, dim3(static_cast<unsigned>(a.rows)), dim3(kThreads), 0, context.stream,
           a);
  if (a.amax == nullptr && a.y_transposed != nullptr) {
    cudaMemsetAsync(a.scale_transposed, 0, static_cast<std::size_t>(a.cols) * sizeof(float), context.stream);
    launch(column_amax<T>, dim3(blocks(a.cols, kThreads), blocks(a.rows, kStripRows)), dim3(kThreads), 0,
           context.stream, a);
    launch(column_scales<Type>, dim3(blocks(a.cols, kThreads)), dim3(kThreads), 0, context.stream,
           a.scale_transposed, a.cols);
  }
  if (op.amax || op.y_transposed)
    launch(quantize_tiles<T, N, Type>, tiles, dim3(kThreads), 0, context.stream, a);
}

template <DType Type>
void quantize_to(const Quantize& op, const Context& context, const QuantizeArgs& a) {
  with_type(op.x.dtype, [&](auto t) {
    using T = decltype(t);
    constexpr int kFull = kVectorOf<T>;
    if (rows_are_aligned(context, {op.x.rows, op.x.cols}, {&op.x}) && rows_take(context, op.y, kFull))
      quantize<Type, T, kFull>(op, context, a);
    else
      quantize<Type, T, 1>(op, context, a);
  });
}

}  // namespace

void run(const Amax& op, const Context& context) {
  unsigned* const amax = start_amax(context, op.amax);
  with_type(op.x.dtype, [&](auto t) {
    using T = decltype(t);
    const Rows shape = rows_of({&op.x});
    with_parts<kVectorOf<T>>(context, shape, {&op.x}, [&](auto n, dim3 grid) {
      launch(tensor_amax<T, n.value>, grid, dim3(kRowThreads), 0, context.stream, context.data_as<T>(op.x),
             op.x.pitch, shape, amax);
    });
  });
}

void run(const Quantize& op, const Context& context) {
  const QuantizeArgs a{.x = context.data(op.x),
                       .amax = context.data_as<float>(op.amax),
                       .y = context.data_as<std::uint8_t>(op.y),
                       .y_transposed = context.data_as<std::uint8_t>(op.y_transposed),
                       .scale = context.data_as<float>(op.scale),
                       .scale_transposed = context.data_as<float>(op.scale_transposed),
                       .x_pitch = op.x.pitch,
                       .y_pitch = op.y.pitch,
                       .y_transposed_pitch = op.y_transposed.pitch,
                       .rows = op.x.rows,
                       .cols = op.x.cols,
                       .wide_transpose = rows_take(context, op.y_transposed, 8)};
  if ((op.y ? op.y.dtype : op.y_transposed.dtype) == DType::f8e4m3)
    quantize_to<DType::f8e4m3>(op, context, a);
  else
    quantize_to<DType::f8e5m2>(op, context, a);
}

}  // namespace titan::cuda
