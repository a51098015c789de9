// Embedding and its gradient.
//
// Forward: one thread N columns of a row; rows of the table are read and y written once.
//
// Backward, the same bits in every run: the positions of the tokens are sorted by (table row, position) by
// counting for each of them how many come before (T² integer comparisons, a few microseconds for 8192 tokens;
// no atomics); then the rows of dy that belong to one table row are added in that order. A row that few
// tokens have is added by one thread for N columns; those with many, which occur because words are not
// equally frequent, by blocks whose warps share them.
#include "kernels/cuda/base/divide.h"
#include "kernels/cuda/base/reduce.h"
#include "kernels/cuda/base/run.h"
#include "kernels/cuda/base/vector.h"

namespace titan::cuda {
namespace {

constexpr int kThreads = 256;

// --- Forward
// -------------------------------------------------------------------------------------------------------------

template <class X, class Y>
struct EmbeddingArgs {
  const std::int32_t* tokens;
  const X* table;
  Y* y;
  std::int64_t tokens_pitch, table_pitch, y_pitch;
  std::int64_t rows, table_rows, first_row;
  int cols;
};

template <class X, class Y, int N>
__global__ void __launch_bounds__(kThreads) embedding(EmbeddingArgs<X, Y> a) {
  const auto [row, vector] = divide(std::int64_t{blockIdx.x} * kThreads + threadIdx.x, a.cols / N);
  if (row >= a.rows) return;
  const int col = vector * N;
  const std::int64_t entry = a.tokens[row * a.tokens_pitch] - a.first_row;
  float x[N] = {};
  if (entry >= 0 && entry < a.table_rows) load(a.table + entry * a.table_pitch + col, x);
  store(a.y + row * a.y_pitch + col, x);
}

// --- Sorting
// -------------------------------------------------------------------------------------------------------------

/// Tokens as rows of the table. Tokens outside of it are of the row behind the last one.
struct Entries {
  const std::int32_t* tokens;
  std::int64_t pitch, first_row;
  int count, table_rows;

  __device__ __forceinline__ int operator[](int t) const {
    const std::int64_t entry = tokens[t * pitch] - first_row;
    return entry >= 0 && entry < table_rows ? static_cast<int>(entry) : table_rows;
  }
};

constexpr int kSorted = 4;  // positions a warp, so that each entry it reads serves four times

/// counts[i] += how many entries of [begin, end) are below bounds[i], for this lane's share.
__device__ __forceinline__ void count_below(const Entries& entries, int begin, int end,
                                            const int (&bounds)[kSorted], int (&counts)[kSorted]) {
#pragma unroll 4
  for (int s = begin + static_cast<int>(threadIdx.x) % kWarpSize; s < end; s += kWarpSize) {
    const int entry = entries[s];
#pragma unroll
    for (int i = 0; i < kSorted; ++i) counts[i] += entry < bounds[i] ? 1 : 0;
  }
}

__device__ __forceinline__ int warp_sum_of(int x) {
#pragma unroll
  for (int bits = kWarpSize / 2; bits > 0; bits /= 2) x += __shfl_xor_sync(kFullWarp, x, bits);
  return x;
}

/// order[k] = the position of the k-th token by (entry, position).
__global__ void __launch_bounds__(kThreads) sort_positions(Entries entries, std::int32_t* order) {
  const int warp = static_cast<int>((std::int64_t{blockIdx.x} * kThreads + threadIdx.x) / kWarpSize);
  const int first = warp * kSorted;
  if (first >= entries.count) return;  // whole warps
  const int end = first + kSorted < entries.count ? first + kSorted : entries.count;
  int own[kSorted], bounds[kSorted], ranks[kSorted] = {};
#pragma unroll
  for (int i = 0; i < kSorted; ++i) {
    own[i] = first + i < end ? entries[first + i] : 0;
    bounds[i] = own[i] + 1;  // before these positions equal entries count too
  }
  count_below(entries, 0, first, bounds, ranks);
  count_below(entries, end, entries.count, own, ranks);
#pragma unroll
  for (int i = 0; i < kSorted; ++i) {
    ranks[i] = warp_sum_of(ranks[i]);
#pragma unroll
    for (int s = 0; s < kSorted; ++s)
      if (s != i && first + s < end) ranks[i] += own[s] < own[i] + (s < i ? 1 : 0) ? 1 : 0;
    if (first + i < end && threadIdx.x % kWarpSize == 0) order[ranks[i]] = first + i;
  }
}

/// begins[e] = the first k whose token is of entry e or above, for e = 0 … table_rows: entry e has
/// order[begins[e]] … order[begins[e + 1] − 1].
__global__ void __launch_bounds__(kThreads)
    find_begins(Entries entries, const std::int32_t* order, std::int32_t* begins) {
  const std::int64_t e = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (e > entries.table_rows) return;
  int low = 0, high = entries.count;
  while (low < high) {
    const int middle = (low + high) / 2;
    if (entries[order[middle]] < e)
      low = middle + 1;
    else
      high = middle;
  }
  begins[e] = low;
}

// --- Sums
// ----------------------------------------------------------------------------------------------------------------

constexpr int kMany = 32;  // rows of dy that one thread does not add alone

template <class T>
struct SumArgs {
  Entries entries;
  const std::int32_t *order, *begins;
  const T* dy;
  float* dtable;
  std::int64_t dy_pitch, dtable_pitch;
  int cols;
  bool add;
};

/// sum += the rows of dy at order[begin], … order[end − 1], in this order; several are read at a time.
template <int N, class T>
__device__ __forceinline__ void add_rows(const SumArgs<T>& a, int begin, int end, int col, float (&sum)[N]) {
  constexpr int kAtOnce = 4;
  for (int k = begin; k < end; k += kAtOnce) {
    float x[kAtOnce][N];
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j)
      if (k + j < end) load(a.dy + a.order[k + j] * a.dy_pitch + col, x[j]);
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j)
#pragma unroll
      for (int i = 0; i < N; ++i) sum[i] += k + j < end ? x[j][i] : 0.0f;
  }
}

/// Table rows with fewer than kMany tokens. Adding, an item is a sorted token, and the first one of an entry
/// does it; overwriting, an item is a table row, and those without tokens become zero.
template <class T, int N>
__global__ void __launch_bounds__(kThreads) sum_few(SumArgs<T> a) {
  const auto [number, vector] = divide(std::int64_t{blockIdx.x} * kThreads + threadIdx.x, a.cols / N);
  if (number >= (a.add ? a.entries.count : a.entries.table_rows)) return;
  const int item = static_cast<int>(number), col = vector * N;
  const int entry = a.add ? a.entries[a.order[item]] : item;
  if (entry == a.entries.table_rows) return;
  const int begin = a.begins[entry], end = a.begins[entry + 1];
  if (end - begin >= kMany || (a.add && begin != item)) return;
  float* const to = a.dtable + entry * a.dtable_pitch + col;
  float sum[N] = {};
  if (a.add) load(to, sum);
  add_rows(a, begin, end, col, sum);
  store(to, sum);
}

constexpr int kManyThreads = 512;

/// Table rows with at least kMany tokens: such an entry has a token at a sorted place that is a multiple of
/// kMany, and the block of the first one does it. A warp adds a part of the tokens for 32·N columns; the
/// parts are added in order.
template <class T, int N>
__global__ void __launch_bounds__(kManyThreads) sum_many(SumArgs<T> a) {
  constexpr int kWarps = kManyThreads / kWarpSize, kCols = kWarpSize * N;
  TITAN_SHARED(float, parts, kWarps* kCols);
  const int place = static_cast<int>(blockIdx.x) * kMany, entry = a.entries[a.order[place]];
  if (entry == a.entries.table_rows) return;
  const int begin = a.begins[entry], count = a.begins[entry + 1] - begin;
  if (count < kMany || place - begin >= kMany) return;

  const int warp = static_cast<int>(threadIdx.x) / kWarpSize,
            lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const int first_col = static_cast<int>(blockIdx.y) * kCols, col = first_col + lane * N;
  const auto part_begin = [&](int w) { return begin + static_cast<int>(std::int64_t{count} * w / kWarps); };
  float sum[N] = {};
  if (col < a.cols) add_rows(a, part_begin(warp), part_begin(warp + 1), col, sum);
#pragma unroll
  for (int i = 0; i < N; ++i) parts[warp * kCols + i * kWarpSize + lane] = sum[i];
  __syncthreads();
  for (int c = static_cast<int>(threadIdx.x); c < kCols && first_col + c < a.cols; c += kManyThreads) {
    float* const to = a.dtable + entry * a.dtable_pitch + first_col + c;
    float total = a.add ? *to : 0.0f;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) total += parts[w * kCols + c % N * kWarpSize + c / N];
    *to = total;
  }
}

unsigned blocks_for(std::int64_t threads) { return static_cast<unsigned>(ceil_div(threads, kThreads)); }

template <class T, int N>
void launch_sums(const SumArgs<T>& a, cudaStream_t stream) {
  const std::int64_t items = a.add ? a.entries.count : a.entries.table_rows;
  launch(sum_few<T, N>, dim3(blocks_for(items * (a.cols / N))), dim3(kThreads), 0, stream, a);
  const dim3 grid(static_cast<unsigned>(ceil_div(a.entries.count, kMany)),
                  static_cast<unsigned>(ceil_div(a.cols, kWarpSize * N)));
  if (a.entries.count >= kMany) launch(sum_many<T, N>, grid, dim3(kManyThreads), 0, stream, a);
}

}  // namespace

void run(const Embedding& op, const Context& context) {
  constexpr int kFull = kVectorOf<bf16>;  // also of f32, in two accesses
  const bool vectors = rows_are_vectors(context, kFull, {&op.table, &op.y});
  with_type(op.table.dtype, [&](auto x) {
    with_type(op.y.dtype, [&](auto y) {
      using X = decltype(x);
      using Y = decltype(y);
      const EmbeddingArgs<X, Y> a{context.data_as<std::int32_t>(op.tokens),
                                  context.data_as<X>(op.table),
                                  context.data_as<Y>(op.y),
                                  op.tokens.pitch,
                                  op.table.pitch,
                                  op.y.pitch,
                                  op.y.rows,
                                  op.table.rows,
                                  op.first_row,
                                  static_cast<int>(op.y.cols)};
      launch(vectors ? embedding<X, Y, kFull> : embedding<X, Y, 1>,
             dim3(blocks_for(op.y.rows * (op.y.cols / (vectors ? kFull : 1)))), dim3(kThreads), 0,
             context.stream, a);
    });
  });
}

void run(const EmbeddingGrad& op, const Context& context) {
  const Entries entries{context.data_as<std::int32_t>(op.tokens), op.tokens.pitch, op.first_row,
                        static_cast<int>(op.tokens.rows), static_cast<int>(op.dtable.rows)};
  std::int32_t* const order = context.data_as<std::int32_t>(op.order);
  std::int32_t* const begins = order + entries.count;
  launch(sort_positions, dim3(blocks_for(ceil_div(entries.count, kSorted) * kWarpSize)), dim3(kThreads), 0,
         context.stream, entries, order);
  launch(find_begins, dim3(blocks_for(op.dtable.rows + 1)), dim3(kThreads), 0, context.stream, entries, order,
         begins);
  constexpr int kDtable = 2;
  with_vectors(context, op.dy.dtype, {&op.dy, &op.dtable}, [&](auto t, auto n) {
    using T = decltype(t);
    launch_sums<T, n.value>(
        {entries, order, begins, context.data_as<T>(op.dy), context.data_as<float>(op.dtable), op.dy.pitch,
         op.dtable.pitch, static_cast<int>(op.dy.cols), !context.overwrites(kDtable)},
        context.stream);
  });
}

}  // namespace titan::cuda
