#include "kernels/cpu/attention/tables.h"

namespace titan::cpu::TITAN_ISA {

const AttentionKernels kAttentionKernels{attention_forward, attention_backward, attention_merge,
                                         attention_delta};

}  // namespace titan::cpu::TITAN_ISA
