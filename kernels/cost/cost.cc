#include "kernels/cost/cost.h"

#include <algorithm>

namespace titan {
namespace {

// --- Floating-point operations. One overload an operation: one without does not compile.

std::int64_t depth(const Gemm& op) { return op.transpose_a ? op.a.rows : op.a.cols; }

std::int64_t pairs(const AttentionShape& shape, const Operand& q, const Operand& k) {
  return shape.sequences * shape.heads * causal_pairs(q.rows / shape.sequences, k.rows / shape.sequences);
}

std::int64_t flops(const Gemm& op) { return 2 * op.c.elements() * depth(op); }
std::int64_t flops(const Amax& op) { return op.x.elements(); }
/// Without amax the largest elements are found here too.
std::int64_t flops(const Quantize& op) {
  return (op.amax ? 1 : 2) * (op.y.elements() + op.y_transposed.elements());
}
std::int64_t flops(const RmsNorm& op) {
  return op.x.elements() * (op.delta ? 5 : 4) + 2 * op.quantized.elements();
}
std::int64_t flops(const RmsNormGrad& op) { return op.x.elements() * (op.dresidual ? 12 : 11); }
std::int64_t flops(const RopeTable& op) { return 2 * op.table.elements(); }
std::int64_t flops(const Rope& op) { return 3 * op.x.rows * op.rotated_heads * op.head_dim; }
std::int64_t flops(const SwiGlu& op) { return 6 * op.y.elements() + 2 * op.quantized.elements(); }
std::int64_t flops(const SwiGluGrad& op) { return 12 * op.dy.elements() + 2 * op.quantized.elements(); }
std::int64_t flops(const Attention& op) { return 4 * op.shape.head_dim * pairs(op.shape, op.q, op.k); }
std::int64_t flops(const MergeLse& op) { return 3 * op.out.elements(); }
std::int64_t flops(const AttentionDelta& op) { return 2 * op.out.elements(); }
/// Five products: q·kᵀ again, dout·vᵀ, and one for each gradient.
std::int64_t flops(const AttentionGrad& op) { return 10 * op.shape.head_dim * pairs(op.shape, op.q, op.k); }
std::int64_t flops(const CacheWrite&) { return 0; }
std::int64_t flops(const Embedding&) { return 0; }
std::int64_t flops(const EmbeddingGrad& op) { return op.dy.elements(); }
std::int64_t flops(const LogitStats& op) { return 4 * op.logits.elements(); }
std::int64_t flops(const CrossEntropyGrad& op) { return 3 * op.logits.elements(); }
std::int64_t flops(const CrossEntropyLoss& op) { return 4 * op.stats.rows; }
std::int64_t flops(const SquareSum& op) { return 2 * op.x.elements(); }
std::int64_t flops(const ClipScale& op) { return op.square_sums.elements(); }
std::int64_t flops(const AdamW& op) { return 15 * op.param.elements(); }
std::int64_t flops(const Cast&) { return 0; }
std::int64_t flops(const Copy&) { return 0; }
std::int64_t flops(const Add& op) { return op.y.elements(); }
std::int64_t flops(const Fill&) { return 0; }
std::int64_t flops(const Iota&) { return 0; }
std::int64_t flops(const InitNormal& op) { return 20 * op.y.elements(); }
std::int64_t flops(const AllGather&) { return 0; }
std::int64_t flops(const ReduceScatter& op) { return op.full.elements(); }
std::int64_t flops(const AllReduce& op) { return op.x.elements(); }
std::int64_t flops(const Exchange&) { return 0; }

// --- Memory traffic: every operand once, less what an operation leaves untouched.

std::int64_t untouched(const Embedding& op) {
  return std::max<std::int64_t>(0, op.table.bytes() - op.y.rows * op.table.cols * size_of(op.table.dtype));
}
std::int64_t untouched(const Rope& op) {
  return std::max<std::int64_t>(0, op.table.rows - op.x.rows) * op.table.cols * size_of(op.table.dtype);
}
template <class AnyOther>
std::int64_t untouched(const AnyOther&) {
  return 0;
}

void add_traffic(const Op& op, Cost& c) {
  if (const auto* write = std::get_if<CacheWrite>(&op)) {
    c.bytes_read = c.bytes_written = write->x.bytes();
    return;
  }
  for_each_operand(op, [&](const Operand& o, Access access, std::string_view) {
    if (access == Access::scratch) return;
    if (reads(access)) c.bytes_read += o.bytes();
    if (writes(access)) c.bytes_written += o.bytes();
  });
  c.bytes_read -= std::visit([](const auto& o) { return untouched(o); }, op);
}

// --- Time

double peak(const Gemm& op, const Machine& m) { return m.matrix_flops(op.a.dtype); }
double peak(const Attention& op, const Machine& m) { return m.matrix_flops(op.q.dtype); }
double peak(const AttentionGrad& op, const Machine& m) { return m.matrix_flops(op.q.dtype); }
template <class Elementwise>
double peak(const Elementwise&, const Machine& m) {
  return m.vector_flops;
}

/// Bytes a rank must send (and receive), by the bandwidth-optimal algorithms.
std::int64_t wire_bytes(const AllGather& op) { return op.full.bytes() - op.shard.bytes(); }
std::int64_t wire_bytes(const ReduceScatter& op) {
  return (op.full.elements() - op.shard.elements()) * size_of(op.full.dtype);
}
std::int64_t wire_bytes(const AllReduce& op) { return 2 * op.x.bytes(); }
std::int64_t wire_bytes(const Exchange& op) {
  std::int64_t sent = 0, received = 0;
  for (const In& o : op.sends) sent += o.bytes();
  for (const Out& o : op.recvs) received += o.bytes();
  return std::max(sent, received);
}
template <class Local>
std::int64_t wire_bytes(const Local&) {
  return 0;
}

double wire_seconds(const Op& op, const Machine& machine) {
  const std::int64_t bytes = std::visit([](const auto& o) { return wire_bytes(o); }, op);
  if (bytes == 0) return 0;
  const Link& link = machine.link(axis_of(op));
  return link.latency_seconds + static_cast<double>(bytes) / link.bytes_per_second;
}

}  // namespace

std::int64_t causal_pairs(std::int64_t q_length, std::int64_t k_length) {
  // Queries that see no key drop out; of the others each sees one key more than the one before.
  const std::int64_t queries = std::min(q_length, k_length);
  return queries * k_length - queries * (queries - 1) / 2;
}

Cost cost(const Op& op, const Machine& machine) {
  Cost c;
  c.flops = std::visit([](const auto& o) { return flops(o); }, op);
  add_traffic(op, c);
  const double peak_flops = std::visit([&](const auto& o) { return peak(o, machine); }, op);
  const double compute = static_cast<double>(c.flops) / peak_flops;
  const double memory = static_cast<double>(c.bytes_read + c.bytes_written) / machine.memory_bytes_per_second;
  c.seconds = std::max({compute, memory, wire_seconds(op, machine)}) + machine.launch_seconds;
  return c;
}

}  // namespace titan
