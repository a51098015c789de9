// The entries of this instruction set's table.
#pragma once

#include "kernels/cpu/attention/kernels.h"

namespace titan::cpu::TITAN_ISA {

extern const AttentionKernels kAttentionKernels;

void attention_forward(const ForwardTask& task);
void attention_backward(const BackwardTask& task);
void attention_merge(const MergeTask& task, int64_t begin, int64_t end);
void attention_delta(const DeltaTask& task, int64_t begin, int64_t end);

}  // namespace titan::cpu::TITAN_ISA
