// The row-by-row kernels beside attention: merging partial results, and the softmax correction of the
// backward.
#include "kernels/cpu/attention/block.h"
#include "kernels/cpu/attention/kernels.h"
#include "kernels/cpu/attention/tables.h"

namespace titan::cpu::TITAN_ISA {
namespace {

template <class T>
TITAN_INLINE T* row_of(const HeadMatrix& x, int64_t row) {
  return (T*)x.data + row * x.pitch;
}

template <class T>
TITAN_INLINE float dot(const T* a, const T* b, int n) {
  vfloat total = {};
  int i = 0;
  for (; i + kWidth <= n; i += kWidth) total += load(a + i) * load(b + i);
  if (i < n) total += load_first(a + i, n - i) * load_first(b + i, n - i);
  return sum(total);
}

/// to = a·weight_a + b·weight_b.
template <class T>
TITAN_INLINE void blend(const T* a, float weight_a, const T* b, float weight_b, T* to, int n) {
  int i = 0;
  for (; i + kWidth <= n; i += kWidth) store(to + i, load(a + i) * weight_a + load(b + i) * weight_b);
  for (; i < n; ++i) store1(to + i, load1(a + i) * weight_a + load1(b + i) * weight_b);
}

template <class T>
void merge_rows(const MergeTask& task, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row)
    for (int head = 0; head < task.heads; ++head) {
      const float a = row_of<float>(task.lse_a, row)[head], b = row_of<float>(task.lse_b, row)[head];
      const float high = a > b ? a : b;
      const bool empty = high == -kInfinity;
      const float part_a = empty ? 0 : __builtin_expf(a - high),
                  part_b = empty ? 0 : __builtin_expf(b - high);
      const float total = part_a + part_b, inverse = empty ? 0 : 1 / total;
      const int64_t at = (int64_t)head * task.head_dim;
      blend(row_of<T>(task.out_a, row) + at, part_a * inverse, row_of<T>(task.out_b, row) + at,
            part_b * inverse, row_of<T>(task.out, row) + at, task.head_dim);
      row_of<float>(task.lse, row)[head] = empty ? -kInfinity : high + __builtin_logf(total);
    }
}

template <class T>
void delta_rows(const DeltaTask& task, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row)
    for (int head = 0; head < task.heads; ++head) {
      const int64_t at = (int64_t)head * task.head_dim;
      row_of<float>(task.delta, row)[head] =
          dot(row_of<T>(task.dout, row) + at, row_of<T>(task.out, row) + at, task.head_dim);
    }
}

}  // namespace

void attention_merge(const MergeTask& task, int64_t begin, int64_t end) {
  task.out.dtype == DType::bf16 ? merge_rows<half>(task, begin, end) : merge_rows<float>(task, begin, end);
}

void attention_delta(const DeltaTask& task, int64_t begin, int64_t end) {
  task.out.dtype == DType::bf16 ? delta_rows<half>(task, begin, end) : delta_rows<float>(task, begin, end);
}

}  // namespace titan::cpu::TITAN_ISA
