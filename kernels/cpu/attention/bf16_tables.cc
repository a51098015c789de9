#include "kernels/cpu/attention/tables.h"

namespace titan::cpu {
namespace avx512 {
void attention_merge(const MergeTask& task, int64_t begin, int64_t end);
void attention_delta(const DeltaTask& task, int64_t begin, int64_t end);
}  // namespace avx512

namespace TITAN_ISA {

const AttentionKernels kAttentionKernels{attention_forward, attention_backward, avx512::attention_merge,
                                         avx512::attention_delta};

}  // namespace TITAN_ISA
}  // namespace titan::cpu
