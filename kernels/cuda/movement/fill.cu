// Constants and counts: Fill writes each element once, 16 bytes a thread; Iota one number a thread.
#include "kernels/base/float8.h"
#include "kernels/cuda/base/rows.h"
#include "kernels/cuda/base/run.h"

namespace titan::cuda {
namespace {

template <class Word, int N>
__global__ void __launch_bounds__(kRowThreads) fill(Word* y, std::int64_t pitch, uint4 pattern, Rows rows) {
  const Part part = part_of<N>(rows);
  if (part.count == 0) return;
  Word* const to = y + part.row * pitch + part.col;
  if (N * sizeof(Word) == sizeof pattern && part.count == N) {
    store_vector(to, pattern);
    return;
  }
  Word word;
  memcpy(&word, &pattern, sizeof word);
  for (int i = 0; i < part.count; ++i) to[i] = word;
}

__global__ void __launch_bounds__(kRowThreads)
    iota(int* y, std::int64_t rows, std::int64_t pitch, std::int64_t period) {
  const std::int64_t row = std::int64_t{blockIdx.x} * kRowThreads + threadIdx.x;
  if (row < rows) y[row * pitch] = static_cast<int>(period > 0 ? row % period : row);
}

template <class Word, class Value>
void fill_with(const Fill& op, Value value, const Context& context) {
  static_assert(sizeof(Word) == sizeof(Value));
  uint4 pattern;
  for (std::size_t i = 0; i < sizeof pattern; i += sizeof value)
    std::memcpy(reinterpret_cast<char*>(&pattern) + i, &value, sizeof value);
  const Rows rows = rows_of({&op.y});
  with_parts<kVectorOf<Word>>(context, rows, {&op.y}, [&](auto n, dim3 grid) {
    launch(fill<Word, n.value>, grid, dim3(kRowThreads), 0, context.stream, context.data_as<Word>(op.y),
           op.y.pitch, pattern, rows);
  });
}

}  // namespace

void run(const Fill& op, const Context& context) {
  switch (op.y.dtype) {
    case DType::f32:
      return fill_with<std::uint32_t>(op, op.value, context);
    case DType::bf16:
      return fill_with<std::uint16_t>(op, to_bf16(op.value), context);
    case DType::i32:
      return fill_with<std::uint32_t>(op, static_cast<std::int32_t>(op.value), context);
    case DType::i64:
      return fill_with<std::uint64_t>(op, static_cast<std::int64_t>(op.value), context);
    case DType::f8e4m3:
      return fill_with<std::uint8_t>(op, to_f8e4m3(op.value), context);
    case DType::f8e5m2:
      return fill_with<std::uint8_t>(op, to_f8e5m2(op.value), context);
  }
}

void run(const Iota& op, const Context& context) {
  if (op.y.rows == 0) return;
  launch(iota, dim3(static_cast<unsigned>(ceil_div(op.y.rows, kRowThreads))), dim3(kRowThreads), 0,
         context.stream, context.data_as<int>(op.y), op.y.rows, op.y.pitch, op.period);
}

}  // namespace titan::cuda
