// What a CPU operation gets: where its operands are, and the threads to run on.
#pragma once

#include <cstdint>

#include "kernels/cpu/base/isa.h"
#include "kernels/op/backend.h"

namespace titan {
class Communicator;
}

namespace titan::cpu {

class Team;
class GemmEngine;

struct Context {
  const Binding& binding;
  const Team& team;
  Isa isa;                     ///< which table of range kernels to use
  GemmEngine* gemm = nullptr;  ///< cached primitives (kernels/cpu/gemm); only Gemm needs it
  CommunicatorSet* communicators = nullptr;
  int lane = 0;

  std::byte* data(const Operand& operand) const {
    return operand ? binding.addresses[operand.value] : nullptr;
  }
  template <class T>
  T* data_as(const Operand& operand) const {
    return reinterpret_cast<T*>(data(operand));
  }
  /// Whether the accumulating operand at `index` among the op's present operands must be overwritten.
  bool overwrites(int index) const { return (binding.overwrite >> index & 1u) != 0; }
};

}  // namespace titan::cpu
