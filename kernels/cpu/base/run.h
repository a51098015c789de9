// The CPU backend as a set of overloads, one for each operation. An operation without an overload does not
// compile (cpu_backend.cc visits Op with these).
#pragma once

#include "kernels/cpu/base/context.h"
#include "kernels/op/op.h"

namespace titan::cpu {

// gemm.cc
void run(const Gemm&, const Context&);
// quantize.cc
void run(const Amax&, const Context&);
void run(const Quantize&, const Context&);
// normalization.cc
void run(const RmsNorm&, const Context&);
void run(const RmsNormGrad&, const Context&);
// rope.cc
void run(const RopeTable&, const Context&);
void run(const Rope&, const Context&);
// swiglu.cc
void run(const SwiGlu&, const Context&);
void run(const SwiGluGrad&, const Context&);
// attention.cc
void run(const Attention&, const Context&);
void run(const MergeLse&, const Context&);
void run(const AttentionDelta&, const Context&);
void run(const AttentionGrad&, const Context&);
void run(const CacheWrite&, const Context&);
// embedding.cc
void run(const Embedding&, const Context&);
void run(const EmbeddingGrad&, const Context&);
// loss.cc
void run(const LogitStats&, const Context&);
void run(const CrossEntropyGrad&, const Context&);
void run(const CrossEntropyLoss&, const Context&);
// optimizer.cc
void run(const SquareSum&, const Context&);
void run(const ClipScale&, const Context&);
void run(const AdamW&, const Context&);
// movement.cc
void run(const Cast&, const Context&);
void run(const Copy&, const Context&);
void run(const Add&, const Context&);
void run(const Fill&, const Context&);
void run(const Iota&, const Context&);
// init.cc
void run(const InitNormal&, const Context&);
// collectives.cc
void run(const AllGather&, const Context&);
void run(const ReduceScatter&, const Context&);
void run(const AllReduce&, const Context&);
void run(const Exchange&, const Context&);

}  // namespace titan::cpu
