// An attention as its kernels see it: operands by pointer and pitch, lengths by sequence. Head h of a row is
// its elements [h·head_dim, (h + 1)·head_dim).
#pragma once

#include <cstdint>

#include "kernels/cuda/base/context.h"
#include "kernels/op/ops.h"

namespace titan::cuda {

inline constexpr int kMaxAttentionHeadDim = 256;

/// Rows of heads, in bf16 or f32; pitch in elements.
struct HeadRows {
  std::byte* data;
  std::int64_t pitch;
  bool is_bf16;
};

/// A result; `add`: onto what is there.
struct HeadResult {
  HeadRows rows;
  bool add;
};

struct AttentionProblem {
  int sequences, heads, kv_heads, group;  ///< group: query heads that share a key/value head
  int head_dim, q_length, k_length;       ///< rows of one sequence
  float scale;
  const std::int32_t *q_position, *k_position, *doc_start;
  const std::int32_t* kv_length;  ///< null: k_length
};

struct ForwardProblem : AttentionProblem {
  HeadRows q, k, v, out;
  float* lse;
  std::int64_t lse_pitch;
};

struct BackwardProblem : AttentionProblem {
  HeadRows dout, q, k, v;
  const float *lse, *delta;
  std::int64_t lse_pitch, delta_pitch;
  HeadResult dq, dk, dv;
};

/// Checks shapes and dtypes.
ForwardProblem make_problem(const Attention& op, const Context& context);
BackwardProblem make_problem(const AttentionGrad& op, const Context& context);

}  // namespace titan::cuda
