// The CUDA backend as a set of overloads, one for each operation. An operation without an overload does not
// compile. Each puts its kernels into the context's stream and returns; it waits for nothing.
#pragma once

#include "kernels/cuda/base/context.h"
#include "kernels/op/ops.h"

namespace titan::cuda {

// gemm/gemm.cc
void run(const Gemm&, const Context&);

// elementwise/attention_rows.cu
void run(const MergeLse&, const Context&);
void run(const AttentionDelta&, const Context&);
void run(const CacheWrite&, const Context&);
// elementwise/embedding.cu
void run(const Embedding&, const Context&);
void run(const EmbeddingGrad&, const Context&);
// elementwise/loss.cu
void run(const LogitStats&, const Context&);
void run(const CrossEntropyGrad&, const Context&);
void run(const CrossEntropyLoss&, const Context&);
// elementwise/rms_norm.cu, rms_norm_grad.cu
void run(const RmsNorm&, const Context&);
void run(const RmsNormGrad&, const Context&);
// elementwise/rope.cu
void run(const RopeTable&, const Context&);
void run(const Rope&, const Context&);
// attention/attention.cc
void run(const Attention&, const Context&);
void run(const AttentionGrad&, const Context&);

// elementwise/quantize.cu
void run(const Amax&, const Context&);
void run(const Quantize&, const Context&);
// elementwise/swiglu.cu
void run(const SwiGlu&, const Context&);
void run(const SwiGluGrad&, const Context&);

// optimizer/square_sum.cu, clip_scale.cu, adamw.cu
void run(const SquareSum&, const Context&);
void run(const ClipScale&, const Context&);
void run(const AdamW&, const Context&);

// movement/copy.cc, cast.cu, add.cu, fill.cu (Fill and Iota), init_normal.cu
void run(const Copy&, const Context&);
void run(const Cast&, const Context&);
void run(const Add&, const Context&);
void run(const Fill&, const Context&);
void run(const Iota&, const Context&);
void run(const InitNormal&, const Context&);
// movement/collectives.cc
void run(const AllGather&, const Context&);
void run(const ReduceScatter&, const Context&);
void run(const AllReduce&, const Context&);
void run(const Exchange&, const Context&);

}  // namespace titan::cuda
