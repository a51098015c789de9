// From the number of a thread to a row and a place in it.
#pragma once

#include "kernels/cuda/dialect.h"

namespace titan::cuda {

struct Quotient {
  std::int64_t quotient;
  int rest;
};

/// index >= 0 by divisor > 0. GPUs divide by a sequence of instructions, several times longer for 64 bits
/// than for 32: those are used where the index allows it.
__device__ __forceinline__ Quotient divide(std::int64_t index, int divisor) {
  if (index >> 32 == 0) {
    const auto low = static_cast<unsigned>(index), by = static_cast<unsigned>(divisor), quotient = low / by;
    return {quotient, static_cast<int>(low - quotient * by)};
  }
  const std::int64_t quotient = index / divisor;
  return {quotient, static_cast<int>(index - quotient * divisor)};
}

}  // namespace titan::cuda
