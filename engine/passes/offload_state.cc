#include "engine/passes/offload_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>

#include "engine/passes/offload_weights.h"
#include "engine/program/edit.h"
#include "kernels/base/error.h"

namespace titan {
namespace {

/// A bucket's gradient in the backward segment: positions of its first and last writers.
struct Gradient {
  std::size_t bucket = 0, first = std::numeric_limits<std::size_t>::max(), last = 0;
};

class GradientOffloader {
 public:
  explicit GradientOffloader(Program& program) : p_(program) {
    for (std::size_t i = 0; i < p_.buckets.size(); ++i) bucket_of_[p_.buckets[i].gradient] = i;
    find_order();
    for (const Bucket& bucket : p_.buckets) {
      const Value& v = p_.value(bucket.gradient);
      host_[bucket.gradient] = add_host_value(v.name + ".host", v.dtype, v.cols, Role::gradient);
    }
  }

  void run() {
    if (p_.micro_batches == 1)
      copy_within_backward();
    else
      copy_after_backward();
    update_on_host();
    if (has_segment(p_, "parameter_norms")) sum_norms_on_host();
  }

 private:
  ValueId add_host_value(std::string name, DType dtype, std::int64_t count, Role role) {
    const ValueId id = add_value(p_, std::move(name), dtype, 1, count, role, Lifetime::step);
    p_.value(id).space = Space::host;
    return id;
  }

  Node make_node(Op op, Lane lane, Tag tag) { return {std::move(op), lane, tag, p_.next_node++, {}}; }

  void find_order() {
    order_.resize(p_.buckets.size());
    for (std::size_t i = 0; i < order_.size(); ++i) order_[i].bucket = i;
    const std::vector<Node>& nodes = p_.segment("backward").nodes;
    for (std::size_t i = 0; i < nodes.size(); ++i)
      for_each_operand(nodes[i].op, [&](const Operand& o, Access access, std::string_view) {
        const auto bucket = bucket_of_.find(p_.base_of(o.value));
        if (bucket == bucket_of_.end() || !writes(access)) return;
        Gradient& gradient = order_[bucket->second];
        gradient.first = std::min(gradient.first, i);
        gradient.last = i;
      });
    for (const Gradient& g : order_)
      TITAN_CHECK(g.first <= g.last, "nothing writes the gradients of {}", p_.buckets[g.bucket].name);
    std::stable_sort(order_.begin(), order_.end(),
                     [](const Gradient& a, const Gradient& b) { return a.last < b.last; });
    for (std::size_t i = 0; i < order_.size(); ++i) rank_[p_.buckets[order_[i].bucket].gradient] = i;
  }

  /// Padding is never copied: nothing on the host reads it, and its zeros may come late.
  std::vector<Node> copies(const Bucket& bucket, int layer) {
    std::vector<Node> nodes;
    const auto copy = [&](std::int64_t begin, std::int64_t end) {
      if (begin == end) return;
      const ValueId x = slice(bucket.gradient, begin, end - begin),
                    y = slice(host_.at(bucket.gradient), begin, end - begin);
      nodes.push_back(make_node(Copy{.x = operand<In>(p_, x), .y = operand<Out>(p_, y)}, Lane::offload,
                                {.layer = layer, .phase = Phase::offload}));
    };
    std::int64_t begin = 0;
    for (const Bucket::Run& gap : bucket.padding) {
      copy(begin, gap.begin);
      begin = gap.begin + gap.count;
    }
    copy(begin, bucket.elements);
    return nodes;
  }

  ValueId slice(ValueId base, std::int64_t begin, std::int64_t count) {
    const Value& v = p_.value(base);
    if (count == v.cols) return base;
    return add_slice(p_, fmt::format("{}.from.{}", v.name, begin), base, begin, 1, count);
  }

  /// Zeros of padding and the sum of squares come along: with them a bucket's device gradient is done.
  void copy_within_backward() {
    std::map<ValueId, std::vector<Node>> finish = take_sums();
    std::vector<Node>& nodes = p_.segment("backward").nodes;
    std::vector<std::vector<Node>> inserted(nodes.size());
    for (std::size_t i = 0; i < order_.size(); ++i) {
      const Bucket bucket = p_.buckets[order_[i].bucket];
      std::vector<Node>& here = inserted[order_[i].last];
      std::vector<Node>& sums = finish[bucket.gradient];
      std::move(sums.begin(), sums.end(), std::back_inserter(here));
      std::vector<Node> moved = copies(bucket, nodes[order_[i].last].tag.layer);
      const NodeId last = moved.back().id;
      std::move(moved.begin(), moved.end(), std::back_inserter(here));
      // Two in flight: the bucket after the next may take this one's memory.
      if (i + 2 < order_.size() && order_[i + 2].first > order_[i].last)
        nodes[order_[i + 2].first].after.push_back(last);
    }
    std::vector<Node> result;
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      result.push_back(std::move(nodes[i]));
      std::move(inserted[i].begin(), inserted[i].end(), std::back_inserter(result));
    }
    nodes = std::move(result);
  }

  std::map<ValueId, std::vector<Node>> take_sums() {
    std::map<ValueId, std::vector<Node>> taken;
    std::erase_if(p_.segment("optimizer").nodes, [&](Node& node) {
      const ValueId of = std::holds_alternative<Fill>(node.op)        ? std::get<Fill>(node.op).y.value
                         : std::holds_alternative<SquareSum>(node.op) ? std::get<SquareSum>(node.op).x.value
                                                                      : kNoValue;
      if (of == kNoValue || !bucket_of_.contains(p_.base_of(of))) return false;
      taken[p_.base_of(of)].push_back(std::move(node));
      return true;
    });
    return taken;
  }

  /// A lane of its own runs ahead of the list: each copy starts when its gradient is final, within the last
  /// backward.
  void copy_after_backward() {
    Segment segment{.name = "offload", .nodes = {}};
    for (const Gradient& gradient : order_) {
      std::vector<Node> moved = copies(p_.buckets[gradient.bucket], -1);
      std::move(moved.begin(), moved.end(), std::back_inserter(segment.nodes));
    }
    const auto ends = [&](const TimelineStep& step) {
      const std::string& name = p_.segments[static_cast<std::size_t>(step.segment)].name;
      return name == "parameter_norms" || name == "optimizer";
    };
    const auto at = std::find_if(p_.timeline.begin(), p_.timeline.end(), ends);
    TITAN_CHECK(at != p_.timeline.end(), "program {} has no optimizer", p_.name);
    TimelineStep step = *at;
    step.segment = static_cast<int>(p_.segments.size());
    p_.timeline.insert(at, step);
    p_.segments.push_back(std::move(segment));
  }

  void update_on_host() {
    move_to_host(p_, p_.at("hyper"));
    std::vector<Node> result;
    std::vector<std::vector<Node>> updates(order_.size());
    for (Node& node : p_.segment("optimizer").nodes) {
      auto* update = std::get_if<AdamW>(&node.op);
      if (update == nullptr) {
        result.push_back(std::move(node));
        continue;
      }
      const std::size_t rank = rank_.at(p_.base_of(update->grad.value));
      update->grad = operand<In>(p_, on_host(update->grad.value));
      update->scale = operand<In>(p_, scalar_on_host(update->scale.value, result));
      update->stop = operand<In>(p_, scalar_on_host(update->stop.value, result));
      node.lane = Lane::host;
      updates[rank].push_back(std::move(node));
    }
    for (std::vector<Node>& of_bucket : updates)
      std::move(of_bucket.begin(), of_bucket.end(), std::back_inserter(result));
    p_.segment("optimizer").nodes = std::move(result);
  }

  /// Copied by the compute lane: on the gradients' lane the copy would wait for all of them.
  ValueId scalar_on_host(ValueId device, std::vector<Node>& nodes) {
    const auto [it, added] = host_.try_emplace(device, kNoValue);
    if (!added) return it->second;
    const Value v = p_.value(device);
    it->second = add_host_value(v.name + ".host", v.dtype, 1, Role::scratch);
    nodes.push_back(make_node(Copy{.x = operand<In>(p_, device), .y = operand<Out>(p_, it->second)},
                              Lane::compute, {.layer = -1, .phase = Phase::optimizer}));
    return it->second;
  }

  /// Device gradients may be gone by then.
  void sum_norms_on_host() {
    for (Node& node : p_.segment("parameter_norms").nodes) {
      auto& sum = std::get<SquareSum>(node.op);
      if (bucket_of_.contains(p_.base_of(sum.x.value))) sum.x = operand<In>(p_, on_host(sum.x.value));
      for (const Operand& written : {Operand(sum.sum), Operand(sum.partial)})
        move_to_host(p_, p_.base_of(written.value));
      node.lane = Lane::host;
    }
  }

  /// The same elements of the host's copy.
  ValueId on_host(ValueId gradient) {
    const Value v = p_.value(gradient);
    const ValueId copy = host_.at(p_.base_of(gradient));
    if (!v.is_view()) return copy;
    return add_slice(p_, v.name + ".host", copy, v.offset / size_of(v.dtype), v.rows, v.cols);
  }

  Program& p_;
  std::map<ValueId, std::size_t> bucket_of_;  ///< of a gradient base
  std::vector<Gradient> order_;               ///< by when they are final
  std::map<ValueId, std::size_t> rank_;       ///< gradient base → place in order_
  std::map<ValueId, ValueId> host_;           ///< the host's copies of gradients and scalars
};

}  // namespace

Program offload_state(Program program) {
  for (const Bucket& bucket : program.buckets)
    for (const ValueId state : {bucket.master, bucket.exp_avg, bucket.exp_avg_sq})
      if (state != kNoValue) move_to_host(program, state);
  offload_weights(program);
  if (has_segment(program, "optimizer")) GradientOffloader(program).run();
  return program;
}

}  // namespace titan
