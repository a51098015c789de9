// Loops that measure what a machine can do at best, for --perf. Plain C types only: included by SIMD sources.
#pragma once

#include <stdint.h>

namespace titan::op_test {

/// Runs `rounds` rounds of independent multiply-adds and returns something that depends on all of them;
/// flops_per_round: what one round is.
struct PeakKernels {
  float (*multiply_add)(int64_t rounds, float x);
  int64_t flops_per_round;
};

}  // namespace titan::op_test

namespace titan::cpu {
namespace baseline {
extern const op_test::PeakKernels kPeak;
}
namespace avx2 {
extern const op_test::PeakKernels kPeak;
}
namespace avx512 {
extern const op_test::PeakKernels kPeak;
}
}  // namespace titan::cpu
