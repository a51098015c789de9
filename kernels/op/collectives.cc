#include "kernels/op/collectives.h"

#include <vector>

#include "kernels/base/error.h"
#include "kernels/op/communicator.h"

namespace titan {
namespace {

/// Null when this rank is alone on the axis.
Communicator* communicator(Axis axis, const CollectiveContext& context) {
  if (context.communicators == nullptr) return nullptr;
  Communicator& c = context.communicators->get(axis, context.lane);
  return c.size() == 1 ? nullptr : &c;
}

/// y = x or y += x, flat; dtypes may differ.
void assign(Operand x, Operand y, bool add, const CollectiveContext& context) {
  TITAN_CHECK_EQ(x.elements(), y.elements());
  for (Operand* o : {&x, &y}) *o = {o->value, o->dtype, 1, o->elements(), o->elements()};
  if (add)
    context.move(Add{.a = {x}, .b = {y}, .y = {y}});
  else if (x.dtype != y.dtype)
    context.move(Cast{.x = {x}, .y = {y}});
  else if (context.data(x) != context.data(y))
    context.move(Copy{.x = {x}, .y = {y}});
}

void check_contiguous(const Operand& x, const Operand& y) {
  TITAN_CHECK(x.contiguous() && y.contiguous(), "collectives take contiguous operands");
}

}  // namespace

void run_collective(const AllGather& op, const CollectiveContext& context) {
  check_contiguous(op.shard, op.full);
  Communicator* c = communicator(op.axis, context);
  if (c == nullptr) return assign(op.shard, op.full, false, context);
  TITAN_CHECK_EQ(op.shard.bytes() * c->size(), op.full.bytes());
  c->all_gather(context.data(op.shard), context.data(op.full), op.shard.bytes(), context.stream);
}

void run_collective(const ReduceScatter& op, bool add, const CollectiveContext& context) {
  check_contiguous(op.full, op.shard);
  Communicator* c = communicator(op.axis, context);
  if (c == nullptr) return assign(op.full, op.shard, add, context);
  TITAN_CHECK_EQ(op.shard.elements() * c->size(), op.full.elements());
  c->reduce_scatter(context.data(op.full), op.full.dtype, context.data(op.shard), op.shard.dtype,
                    op.shard.elements(), add, context.stream);
}

void run_collective(const AllReduce& op, const CollectiveContext& context) {
  check_contiguous(op.x, op.y);
  TITAN_CHECK(op.x.dtype == op.y.dtype);
  TITAN_CHECK_EQ(op.x.elements(), op.y.elements());
  Communicator* c = communicator(op.axis, context);
  if (c == nullptr) return assign(op.x, op.y, false, context);
  c->all_reduce(context.data(op.x), context.data(op.y), op.x.dtype, op.x.elements(), op.reduction,
                context.stream);
}

void run_collective(const Exchange& op, const CollectiveContext& context) {
  TITAN_CHECK_EQ(op.sends.size(), op.send_peers.size());
  TITAN_CHECK_EQ(op.recvs.size(), op.recv_peers.size());
  Communicator* c = communicator(op.axis, context);
  if (c == nullptr) {
    TITAN_CHECK_EQ(op.sends.size(), op.recvs.size());
    for (std::size_t i = 0; i < op.sends.size(); ++i) assign(op.sends[i], op.recvs[i], false, context);
    return;
  }
  std::vector<SendBuffer> sends;
  std::vector<RecvBuffer> recvs;
  for (std::size_t i = 0; i < op.sends.size(); ++i) {
    TITAN_CHECK(op.sends[i].contiguous());
    sends.push_back({context.data(op.sends[i]), op.sends[i].bytes(), op.send_peers[i]});
  }
  for (std::size_t i = 0; i < op.recvs.size(); ++i) {
    TITAN_CHECK(op.recvs[i].contiguous());
    recvs.push_back({context.data(op.recvs[i]), op.recvs[i].bytes(), op.recv_peers[i]});
  }
  c->exchange(sends, recvs, context.stream);
}

}  // namespace titan
