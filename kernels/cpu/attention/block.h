// Blocks in working memory: columns of an operand as rows of floats, their positions, and which keys they
// see.
#pragma once

#include "kernels/cpu/attention/kernels.h"
#include "kernels/cpu/base/simd.h"

namespace titan::cpu::TITAN_ISA {

inline constexpr float kLog2e = 1.44269504088896341f;
inline constexpr float kInfinity = __builtin_inff();

TITAN_INLINE int round_up(int n, int multiple) { return (n + multiple - 1) / multiple * multiple; }

/// 2^x for x that is not large: relative error < 2e-7, exactly 0 for x <= -127 (also -inf), NaN for NaN. At
/// the clamp the fraction is 0 and the exponent bits become 0.
TITAN_INLINE vfloat exp2_or_zero(vfloat x) {
  x = max(broadcast(-127.0f), x);               // in this order NaN passes
  const vfloat magic = broadcast(12582912.0f);  // 1.5·2^23: adding it rounds to the nearest integer
  const vfloat shifted = x + magic;
  const vfloat f = x - (shifted - magic);
  vfloat p = broadcast(1.54035304e-4f);
  p = p * f + 1.33335581e-3f;
  p = p * f + 9.61812911e-3f;
  p = p * f + 5.55041087e-2f;
  p = p * f + 2.40226507e-1f;
  p = p * f + 6.93147181e-1f;
  p = p * f + 1.0f;
  return (vfloat)((vint)p + ((vint)shifted << 23));
}

template <class T>
TITAN_INLINE void load_row(const T* from, int width, float* to, int padded) {
  int i = 0;
  for (; i + kWidth <= width; i += kWidth) store(to + i, load(from + i));
  if (i < width) {
    store(to + i, load_first(from + i, width - i));
    i += kWidth;
  }
  for (; i < padded; i += kWidth) store(to + i, vfloat{});
}

template <class T>
TITAN_INLINE void store_row(const float* from, float factor, bool add, T* to, int width) {
  int i = 0;
  for (; i + kWidth <= width; i += kWidth) {
    const vfloat x = load(from + i) * factor;
    store(to + i, add ? load(to + i) + x : x);
  }
  for (; i < width; ++i) store1(to + i, add ? load1(to + i) + from[i] * factor : from[i] * factor);
}

/// Calls f(element pointer, i) for columns first + i, i < count.
template <class T, class F>
TITAN_INLINE void for_each_column(const HeadColumns& x, int64_t first, int count, const F& f) {
  T* row = (T*)x.data + first / x.group * x.pitch;
  int head = (int)(first % x.group);
  for (int i = 0; i < count; ++i) {
    f(row + head * x.width, i);
    if (++head == x.group) {
      head = 0;
      row += x.pitch;
    }
  }
}

/// Brings `bytes` from `p` on nearer: rows of an operand are too far apart for the hardware to guess the
/// next.
TITAN_INLINE void prefetch(const void* p, int bytes) {
  for (int i = 0; i < bytes; i += 64) __builtin_prefetch((const char*)p + i);
}

template <class T>
TITAN_INLINE void load_columns_of(const HeadColumns& x, int64_t first, int count, float* to, int ld) {
  constexpr int kRowsAhead = 8;
  for_each_column<T>(x, first, count, [&](const T* p, int i) {
    if (i + kRowsAhead * x.group < count) prefetch(p + kRowsAhead * x.pitch, x.width * (int)sizeof(T));
    load_row(p, x.width, to + i * ld, ld);
  });
}

/// to [count, ld] = the columns from `first`, padded with zeros.
TITAN_INLINE void load_columns(const HeadColumns& x, int64_t first, int count, float* to, int ld) {
  if (x.dtype == DType::bf16)
    load_columns_of<half>(x, first, count, to, ld);
  else
    load_columns_of<float>(x, first, count, to, ld);
}

/// The columns from `first` = (or +=) from [count, ld] · factor(i).
template <class Factor>
TITAN_INLINE void store_columns(const HeadColumns& x, int64_t first, int count, const float* from, int ld,
                                bool add, const Factor& factor) {
  if (x.dtype == DType::bf16)
    for_each_column<half>(x, first, count,
                          [&](half* p, int i) { store_row(from + i * ld, factor(i), add, p, x.width); });
  else
    for_each_column<float>(x, first, count,
                           [&](float* p, int i) { store_row(from + i * ld, factor(i), add, p, x.width); });
}

/// to [width, kQueryBlock] = fromᵀ · factor; the columns between count and padded become zero.
TITAN_INLINE void transpose(const float* from, int ld, int count, int padded, int width, float factor,
                            float* to) {
  for (int d = 0; d < width; ++d) {
    float* row = to + d * kQueryBlock;
    for (int i = 0; i < count; ++i) row[i] = from[i * ld + d] * factor;
    for (int i = count; i < padded; ++i) row[i] = 0;
  }
}

/// The positions of a block of query columns. Columns that see nothing (padded rows, and those after `count`)
/// start their document after every key.
struct QueryBlock {
  int64_t first;
  int count, padded;  ///< padded: count rounded up to whole vectors
  int32_t position[kQueryBlock], doc_start[kQueryBlock];
  int32_t min_position, max_position, min_doc_start, max_doc_start;
};

TITAN_INLINE void load_positions(const QueryPositions& queries, int group, int64_t first, int count,
                                 QueryBlock* block) {
  block->first = first;
  block->count = count;
  block->padded = round_up(count, kWidth);
  block->min_position = block->min_doc_start = INT32_MAX;
  block->max_position = block->max_doc_start = INT32_MIN;
  for (int i = 0; i < block->padded; ++i) {
    const int64_t row = (first + i) / group;
    const bool sees = i < count && queries.position[row] >= 0;
    const int32_t position = sees ? queries.position[row] : -1;
    const int32_t doc_start = sees ? queries.doc_start[row] : INT32_MAX;
    block->position[i] = position;
    block->doc_start[i] = doc_start;
    if (position < block->min_position) block->min_position = position;
    if (position > block->max_position) block->max_position = position;
    if (doc_start < block->min_doc_start) block->min_doc_start = doc_start;
    if (doc_start > block->max_doc_start) block->max_doc_start = doc_start;
  }
}

/// lse in base 2, and delta, of the columns from `first`; those between count and padded become zero.
TITAN_INLINE void load_statistics(const BackwardTask& task, int64_t first, int count, int padded, float* lse,
                                  float* delta) {
  for (int i = count; i < padded; ++i) lse[i] = delta[i] = 0;
  // A row that saw no key has lse = −inf and sees none now; any finite number serves.
  for_each_column<float>(task.lse, first, count,
                         [&](const float* x, int i) { lse[i] = *x == -kInfinity ? 0 : *x * kLog2e; });
  for_each_column<float>(task.delta, first, count, [&](const float* x, int i) { delta[i] = *x; });
}

enum class Visible { none, some, all };

TITAN_INLINE Visible visible(const QueryBlock& q, const KeyBlock& k) {
  if (k.min_position > q.max_position || k.max_position < q.min_doc_start) return Visible::none;
  const bool all = k.max_position <= q.min_position && k.min_position >= q.max_doc_start;
  return all ? Visible::all : Visible::some;
}

/// Scores of the queries from vector `column` on, of which the key at `key_position` is hidden, become −inf.
TITAN_INLINE vfloat mask(vfloat scores, int32_t key_position, const QueryBlock& q, int column) {
  vint position, doc_start;
  memcpy(&position, q.position + column, sizeof position);
  memcpy(&doc_start, q.doc_start + column, sizeof doc_start);
  const vint key = broadcast(key_position);
  return select((doc_start <= key) & (key <= position), scores, broadcast(-kInfinity));
}

}  // namespace titan::cpu::TITAN_ISA
