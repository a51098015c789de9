// The launches that attention.cc chooses from. Each puts its kernels into the stream.
#pragma once

#include "kernels/cuda/attention/problem.h"

namespace titan::cuda {

void attention_general(const ForwardProblem& problem, cudaStream_t stream);
void attention_general(const BackwardProblem& problem, cudaStream_t stream);

/// bf16 operands of head_dim 64 or 128 whose rows, and results' rows, start at multiples of 16 bytes.
void attention_on_tensor_cores(const ForwardProblem& problem, cudaStream_t stream);
void attention_on_tensor_cores(const BackwardProblem& problem, cudaStream_t stream);

/// The same on Hopper, without a kv_length: what lies behind it would have to be finite.
void attention_on_hopper(const ForwardProblem& problem, cudaStream_t stream);
void attention_on_hopper(const BackwardProblem& problem, cudaStream_t stream);

}  // namespace titan::cuda
