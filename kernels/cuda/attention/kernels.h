// The launches that attention.cc chooses from. Each puts its kernels into the stream.
#pragma once

#include "kernels/cuda/attention/problem.h"

namespace titan::cuda {

void attention_general(const ForwardProblem& problem, cudaStream_t stream);
void attention_general(const BackwardProblem& problem, cudaStream_t stream);

}  // namespace titan::cuda
