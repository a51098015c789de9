// Collectives on the host.
#include "kernels/op/collectives.h"
#include "kernels/cpu/base/accumulate.h"
#include "kernels/cpu/base/run.h"

namespace titan::cpu {
namespace {

void with_collectives(const Context& context, FunctionRef<void(const CollectiveContext&)> f) {
  const auto data = [&](const Operand& o) { return context.data(o); };
  const auto move = [&](const LocalMove& op) { std::visit([&](const auto& o) { run(o, context); }, op); };
  f({context.communicators, context.lane, nullptr, data, move});
}

}  // namespace

void run(const AllGather& op, const Context& context) {
  with_collectives(context, [&](const auto& c) { run_collective(op, c); });
}

void run(const ReduceScatter& op, const Context& context) {
  const bool add = adds(op, op.shard, context);
  with_collectives(context, [&](const auto& c) { run_collective(op, add, c); });
}

void run(const AllReduce& op, const Context& context) {
  with_collectives(context, [&](const auto& c) { run_collective(op, c); });
}

void run(const Exchange& op, const Context& context) {
  with_collectives(context, [&](const auto& c) { run_collective(op, c); });
}

}  // namespace titan::cpu
