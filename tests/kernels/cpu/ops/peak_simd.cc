#include "tests/kernels/cpu/ops/peak.h"

#include "kernels/cpu/base/simd.h"

namespace titan::cpu::TITAN_ISA {
namespace {

constexpr int kChains = 12;  // more than latency · units of any core, fewer than its registers

float multiply_add(int64_t rounds, float x) {
  vfloat chain[kChains];
  for (int i = 0; i < kChains; ++i) chain[i] = broadcast(x + (float)i);
  const vfloat factor = broadcast(x), term = broadcast(1.0f - x);
  for (int64_t r = 0; r < rounds; ++r)
    for (int i = 0; i < kChains; ++i) chain[i] = chain[i] * factor + term;
  vfloat total{};
  for (int i = 0; i < kChains; ++i) total += chain[i];
  return sum(total);
}

}  // namespace

const op_test::PeakKernels kPeak = {multiply_add, 2 * kChains* kWidth};

}  // namespace titan::cpu::TITAN_ISA
