// The attention kernels: what one thread does between two synchronisations, compiled once for each
// instruction set. The drivers (attention.cc, attention_grad.cc) cut an operation into tasks and choose a
// table; another set of kernels (say, on matrix instructions) is another table.
//
// The `group` query heads that share a key/value head are columns of one matrix: column c of a sequence is
// head c % group of row c / group. So grouped-query attention is multi-query attention with more queries, and
// every block of keys is loaded once for all heads that read it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/base/dtype.h"
#include "kernels/cpu/base/isa.h"

namespace titan::cpu {

inline constexpr int kMaxKeyBlock = 96;  ///< keys of a tile, at most
inline constexpr int kQueryBlock = 96;   ///< query columns of a tile
inline constexpr int kRowMultiple = 16;  ///< rows in working memory are padded with zeros to this many floats

/// The columns of one sequence and key/value head in an operand: `width` elements for each, `group` of them
/// side by side in a row. Keys and values have group 1; statistics have width 1.
struct HeadColumns {
  std::byte* data = nullptr;
  DType dtype = DType::f32;
  std::int64_t pitch = 0;
  int group = 1, width = 0;
};

/// Where the queries of one sequence are, by row.
struct QueryPositions {
  const std::int32_t* position;
  const std::int32_t* doc_start;
};

/// Consecutive keys of one sequence and the range of their positions.
struct KeyBlock {
  std::int64_t first;
  int count;
  std::int32_t min_position, max_position;
};

/// Keys of a tile: few enough for keys and values to stay in the first-level cache.
int key_block_size(int head_dim);

struct Keys {
  const std::int32_t* position;  ///< by row of the sequence
  const KeyBlock* blocks;
  std::int64_t block_count;
};

/// out and lse of the `query_count` <= kQueryBlock columns from `first_query`.
struct ForwardTask {
  HeadColumns q, k, v, out, lse;
  QueryPositions queries;
  std::int64_t first_query;
  int query_count;
  Keys keys;
  float scale;
  float* scratch;  ///< forward_scratch() floats, 64-byte aligned
};
std::int64_t forward_scratch(int head_dim);

/// Of the given columns against the given keys: dq (when wanted: of all keys) and dk, dv (when wanted: of all
/// columns). Sums run over blocks in order, so a gradient has the same bits whichever task makes it.
struct BackwardTask {
  HeadColumns q, k, v, dout, lse, delta, dq, dk, dv;
  bool want_dq, want_dkv;
  bool add_dq, add_dk, add_dv;  ///< onto what is there (f32)
  QueryPositions queries;
  std::int64_t first_query, query_count;
  Keys keys;
  float scale;
  float* scratch;  ///< backward_scratch() floats, 64-byte aligned
};
std::int64_t backward_scratch(int head_dim, std::int64_t keys);

/// Row `row` of an operand [rows, heads · head_dim] against row `row` of one [rows, heads].
struct HeadMatrix {
  std::byte* data;
  DType dtype;
  std::int64_t pitch;
};
struct MergeTask {
  HeadMatrix out_a, lse_a, out_b, lse_b, out, lse;
  int heads, head_dim;
};
struct DeltaTask {
  HeadMatrix dout, out, delta;
  int heads, head_dim;
};

struct AttentionKernels {
  void (*forward)(const ForwardTask&);
  void (*backward)(const BackwardTask&);
  void (*merge)(const MergeTask&, std::int64_t begin_row, std::int64_t end_row);
  void (*delta)(const DeltaTask&, std::int64_t begin_row, std::int64_t end_row);
};

namespace baseline {
extern const AttentionKernels kAttentionKernels;
}
namespace avx2 {
extern const AttentionKernels kAttentionKernels;
}
namespace avx512 {
extern const AttentionKernels kAttentionKernels;
}
namespace avx512_bf16 {
extern const AttentionKernels kAttentionKernels;
}

const AttentionKernels& attention_kernels(Isa isa);

}  // namespace titan::cpu
