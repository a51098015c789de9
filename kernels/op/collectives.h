// Collectives as every backend runs them: a call of the communicator of (axis, lane). Alone on its axis a
// rank copies, by operations of the backend.
#pragma once

#include <cstddef>
#include <variant>

#include "kernels/base/function_ref.h"
#include "kernels/op/ops.h"

namespace titan {

class CommunicatorSet;

using LocalMove = std::variant<Add, Cast, Copy>;

/// Where a backend runs a collective.
struct CollectiveContext {
  CommunicatorSet* communicators;  ///< null: this rank is alone everywhere
  int lane;
  void* stream;  ///< the lane's; null on the host
  FunctionRef<std::byte*(const Operand&)> data;
  FunctionRef<void(const LocalMove&)> move;
};

void run_collective(const AllGather& op, const CollectiveContext& context);
/// `add`: onto what the shard holds.
void run_collective(const ReduceScatter& op, bool add, const CollectiveContext& context);
void run_collective(const AllReduce& op, const CollectiveContext& context);
void run_collective(const Exchange& op, const CollectiveContext& context);

}  // namespace titan
