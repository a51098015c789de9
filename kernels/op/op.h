// Op: the closed variant of all operations, and what passes ask of any op without knowing which it is.
#pragma once

#include <string>
#include <variant>

#include "kernels/base/function_ref.h"
#include "kernels/op/ops.h"

namespace titan {

using Op =
    std::variant<Gemm, Amax, Quantize, RmsNorm, RmsNormGrad, RopeTable, Rope, SwiGlu, SwiGluGrad, Attention,
                 MergeLse, AttentionDelta, AttentionGrad, CacheWrite, Embedding, EmbeddingGrad, LogitStats,
                 CrossEntropyGrad, CrossEntropyLoss, SquareSum, ClipScale, AdamW, Cast, Copy, Add, Fill, Iota,
                 InitNormal, AllGather, ReduceScatter, AllReduce, Exchange>;

std::string_view name_of(const Op& op);

/// Calls f(operand, access, operand name) for every present operand, in declaration order; `f` may change the
/// operand.
void for_each_operand(Op& op, FunctionRef<void(Operand&, Access, std::string_view)> f);
void for_each_operand(const Op& op, FunctionRef<void(const Operand&, Access, std::string_view)> f);

/// Calls f(written, read) for every pair of present operands that may share memory (ops.h: kShare).
void for_each_share(const Op& op, FunctionRef<void(const Operand& written, const Operand& read)> f);

/// The plain fields, printed stably for dumps: "transpose_b=1 epsilon=1e-05". Defaults are left out.
std::string attributes(const Op& op);

/// Whether the op talks to other ranks, and over which axis.
bool is_collective(const Op& op);
Axis axis_of(const Op& collective);

}  // namespace titan
