// Rotary position embedding: its table and the rotation. One thread rotates N pairs of columns of two heads,
// so that the table's numbers serve twice; x is read and y written once. Rotating in place, the other heads
// are not written, and read only for an amax. Positions are below the table's rows.
#include "kernels/cuda/base/amax.h"
#include "kernels/cuda/base/divide.h"
#include "kernels/cuda/base/run.h"
#include "kernels/cuda/base/vector.h"

namespace titan::cuda {
namespace {

constexpr int kThreads = 256;

// --- Table: a thread computes one frequency and the angles of several positions, in double precision
// -------------------

constexpr int kPositions = 16;  // a thread
constexpr double kPi = 3.14159265358979323846;

/// Llama 3.1: long wavelengths are stretched by `factor`, short ones kept, those between interpolated.
__device__ double scaled(double frequency, const RopeScaling& s) {
  const double turns = static_cast<double>(s.original_length) * frequency / (2 * kPi);
  const double low = s.low_freq_factor, high = s.high_freq_factor;
  const double keep = fmin(fmax((turns - low) / (high - low), 0.0), 1.0);
  return frequency * (keep + (1 - keep) / s.factor);
}

__global__ void __launch_bounds__(kThreads) rope_table(float* table, std::int64_t pitch, std::int64_t rows,
                                                       int cols, double theta, RopeScaling scaling) {
  const int half = cols / 2;
  const auto [part, i] = divide(std::int64_t{blockIdx.x} * kThreads + threadIdx.x, half);
  const std::int64_t first = part * kPositions;
  if (first >= rows) return;
  const double frequency = scaled(pow(theta, -2.0 * i / cols), scaling);
  const std::int64_t end = first + kPositions < rows ? first + kPositions : rows;
  for (std::int64_t p = first; p < end; ++p) {
    const double angle = static_cast<double>(p) * frequency;
    table[p * pitch + i] = static_cast<float>(cos(angle));
    table[p * pitch + half + i] = static_cast<float>(sin(angle));
  }
}

// --- Rotation
// ------------------------------------------------------------------------------------------------------------

constexpr int kHeads = 2;  // a thread

template <class X, class Y>
struct RopeArgs {
  const X* x;
  Y* y;
  const std::int32_t* positions;
  const float* table;
  unsigned* amax;
  std::int64_t x_pitch, y_pitch, positions_pitch, table_pitch;
  std::int64_t rows;
  int cols, half, rotated_heads;
  int heads, written_heads;  ///< that are read and written, the last one perhaps in part
  float sign;                ///< of the sines
};

/// One half of a head: x[0..N) at `col`, zeros behind the end of the row.
template <int N, class X>
__device__ __forceinline__ void load_half(const X* row, int col, int cols, float (&x)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) x[i] = 0;
  if (col < cols) load(row + col, x);
}

template <int N>
__device__ __forceinline__ void rotate(float (&low)[N], float (&high)[N], const float (&cosine)[N],
                                       const float (&sine)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) {
    const float l = low[i], h = high[i];
    low[i] = l * cosine[i] - h * sine[i];
    high[i] = h * cosine[i] + l * sine[i];
  }
}

/// most = the largest of it and of a head's magnitudes in y: what was read if it is not written.
template <class Y, int N>
__device__ __forceinline__ void keep_head(const float (&low)[N], const float (&high)[N], bool written,
                                          unsigned& most) {
  unsigned largest = 0;
  keep_largest<float>(low, largest);
  keep_largest<float>(high, largest);
  most = larger(most, written ? rounded_magnitude<Y>(largest) : largest);
}

/// Raises `most` by what this thread writes, or leaves, if asked to.
template <bool FindsAmax, int N, class X, class Y>
__device__ __forceinline__ void rotate_heads(const RopeArgs<X, Y>& a, unsigned& most) {
  const int vectors = a.half / N, groups = (a.heads + kHeads - 1) / kHeads;
  const auto [row, place] = divide(std::int64_t{blockIdx.x} * kThreads + threadIdx.x, vectors * groups);
  if (row >= a.rows) return;
  const int i = place % vectors * N, first_head = place / vectors * kHeads;
  const X* const x = a.x + row * a.x_pitch;
  Y* const y = a.y + row * a.y_pitch;
  const std::int32_t position = a.positions[row * a.positions_pitch];

  float low[kHeads][N], high[kHeads][N], cosine[N] = {}, sine[N] = {};
#pragma unroll
  for (int h = 0; h < kHeads; ++h) {
    const int col = (first_head + h) * 2 * a.half + i;
    load_half(x, col, a.cols, low[h]);
    load_half(x, col + a.half, a.cols, high[h]);
  }
  if (position >= 0 && first_head < a.rotated_heads) {
    load(a.table + position * a.table_pitch + i, cosine);
    load(a.table + position * a.table_pitch + a.half + i, sine);
#pragma unroll
    for (int k = 0; k < N; ++k) sine[k] *= a.sign;
  }
#pragma unroll
  for (int h = 0; h < kHeads; ++h) {
    const int head = first_head + h, col = head * 2 * a.half + i;
    if (position >= 0 && head < a.rotated_heads) rotate(low[h], high[h], cosine, sine);
    const bool written = head < a.written_heads;
    if (written && col < a.cols) store(y + col, low[h]);
    if (written && col + a.half < a.cols) store(y + col + a.half, high[h]);
    if constexpr (FindsAmax) keep_head<Y>(low[h], high[h], written, most);
  }
}

template <class X, class Y, int N, bool FindsAmax>
__global__ void __launch_bounds__(kThreads) rope(RopeArgs<X, Y> a) {
  unsigned most = 0;
  rotate_heads<FindsAmax, N>(a, most);
  if constexpr (FindsAmax) raise_amax<kThreads>(most, a.amax);
}

template <class X, class Y>
RopeArgs<X, Y> arguments(const Rope& op, const Context& context, unsigned* amax) {
  const bool in_place = context.data(op.x) == context.data(op.y);
  const int all = static_cast<int>(ceil_div(op.x.cols, op.head_dim));
  return {context.data_as<X>(op.x),
          context.data_as<Y>(op.y),
          context.data_as<std::int32_t>(op.positions),
          context.data_as<float>(op.table),
          amax,
          op.x.pitch,
          op.y.pitch,
          op.positions.pitch,
          op.table.pitch,
          op.x.rows,
          static_cast<int>(op.x.cols),
          op.head_dim / 2,
          op.rotated_heads,
          in_place && amax == nullptr ? op.rotated_heads : all,
          in_place ? op.rotated_heads : all,
          op.inverse ? -1.0f : 1.0f};
}

template <class X, class Y, int N>
void launch_rope(const RopeArgs<X, Y>& a, cudaStream_t stream) {
  const std::int64_t threads = a.rows * (a.half / N) * ceil_div(a.heads, kHeads);
  if (threads == 0) return;
  launch(a.amax != nullptr ? rope<X, Y, N, true> : rope<X, Y, N, false>,
         dim3(static_cast<unsigned>(ceil_div(threads, kThreads))), dim3(kThreads), 0, stream, a);
}

}  // namespace

void run(const RopeTable& op, const Context& context) {
  const std::int64_t threads = ceil_div(op.table.rows, kPositions) * (op.table.cols / 2);
  launch(rope_table, dim3(static_cast<unsigned>(ceil_div(threads, kThreads))), dim3(kThreads), 0,
         context.stream, context.data_as<float>(op.table), op.table.pitch, op.table.rows,
         static_cast<int>(op.table.cols), op.theta, op.scaling);
}

void run(const Rope& op, const Context& context) {
  unsigned* const amax = start_amax(context, op.amax);
  constexpr int kFull = kVectorOf<bf16>;  // also of f32, in two accesses
  const bool vectors =
      op.head_dim % (2 * kFull) == 0 && rows_are_vectors(context, kFull, {&op.x, &op.y, &op.table});
  with_type(op.x.dtype, [&](auto x) {
    with_type(op.y.dtype, [&](auto y) {
      const auto a = arguments<decltype(x), decltype(y)>(op, context, amax);
      if (vectors)
        launch_rope<decltype(x), decltype(y), kFull>(a, context.stream);
      else
        launch_rope<decltype(x), decltype(y), 1>(a, context.stream);
    });
  });
}

}  // namespace titan::cuda
