#include "kernels/cpu/elementwise/lanes.h"

namespace titan::cpu::TITAN_ISA {
namespace {

template <class X, class Y>
void embedding(const EmbeddingArgs& a, int64_t begin, int64_t end) {
  for (int64_t r = begin; r < end; ++r) {
    const int64_t index = *row<int32_t>(a.tokens, r) - a.first_row;
    Y* y = row<Y>(a.y, r);
    if (index < 0 || index >= a.table_rows) {
      memset(y, 0, (size_t)a.cols * sizeof(Y));
      continue;
    }
    copy(row<const X>(a.table, index), y, a.cols);
  }
}

template <class T>
void sum_picked(Rows x, const int32_t* order, int64_t count, float* y, bool add, int64_t cols) {
  if (!add) memset(y, 0, (size_t)cols * sizeof(float));
  for (int64_t k = 0; k < count; ++k) {
    const T* from = row<T>(x, order[k]);
    for_each_vector(cols, [&](int64_t i, auto lanes) {
      store(y + i, load(y + i, lanes) + load(from + i, lanes), lanes);
    });
  }
}

}  // namespace

const EmbeddingKernels kEmbedding = {
    {{embedding<float, float>, embedding<float, half>}, {embedding<half, float>, embedding<half, half>}},
    {sum_picked<float>, sum_picked<half>}};

}  // namespace titan::cpu::TITAN_ISA
