#include "parallelism/passes/shard_parameters.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "engine/program/edit.h"
#include "kernels/base/error.h"

namespace titan {
namespace {

/// Every unit of storage starts at a multiple of this many elements: 256 bytes in any dtype down to two
/// bytes.
constexpr std::int64_t kUnitElements = 128;

/// A base value that kernels use whole, and its place in the bucket.
struct Unit {
  ValueId weight, gradient;
  std::int64_t begin, count;
};

class Sharder {
 public:
  Sharder(Program program, const ShardOptions& options) : p_(std::move(program)), options_(options) {}

  Program run(const std::vector<BucketPlan>& plan) {
    for (const BucketPlan& bucket : plan) shard(bucket);
    refresh_operands(p_);
    if (!gather_.nodes.empty()) {
      p_.timeline.insert(p_.timeline.begin(),
                         TimelineStep{.segment = static_cast<int>(p_.segments.size()), .variant = {}});
      p_.segments.push_back(std::move(gather_));
    }
    return std::move(p_);
  }

 private:
  void shard(const BucketPlan& plan) {
    std::vector<Unit> units = lay_out(plan);
    Bucket bucket{.name = plan.name};
    const std::int64_t end = units.back().begin + units.back().count;
    bucket.elements = (end + kUnitElements - 1) / kUnitElements * kUnitElements;
    const std::string name = "bucket." + plan.name;
    bucket.master = add_value(p_, name + ".master", DType::f32, 1, bucket.elements, Role::parameter,
                              Lifetime::persistent);
    if (units.front().gradient != kNoValue) {
      bucket.gradient =
          add_value(p_, name + ".gradient", DType::f32, 1, bucket.elements, Role::gradient, Lifetime::step);
      bucket.exp_avg = add_value(p_, name + ".exp_avg", DType::f32, 1, bucket.elements, Role::optimizer_state,
                                 Lifetime::persistent);
      bucket.exp_avg_sq = add_value(p_, name + ".exp_avg_sq", DType::f32, 1, bucket.elements,
                                    Role::optimizer_state, Lifetime::persistent);
      for (const Unit& unit : units)
        rebase(p_, unit.gradient, bucket.gradient, unit.begin * size_of(DType::f32));
    }
    name_state(plan, units, bucket);
    add_padding(units, bucket);
    place_weights(name, units, bucket);
    p_.buckets.push_back(std::move(bucket));
  }

  std::vector<Unit> lay_out(const BucketPlan& plan) const {
    std::vector<Unit> units;
    std::int64_t end = 0;
    for (const std::size_t index : plan.parameters) {
      const Parameter& parameter = p_.parameters[index];
      const ValueId base = p_.base_of(parameter.weight);
      if (!units.empty() && units.back().weight == base) continue;
      const ValueId gradient = parameter.gradient == kNoValue ? kNoValue : p_.base_of(parameter.gradient);
      const std::int64_t begin = (end + kUnitElements - 1) / kUnitElements * kUnitElements;
      units.push_back({base, gradient, begin, p_.value(base).rows * p_.value(base).cols});
      end = begin + units.back().count;
    }
    return units;
  }

  bool decays(const std::string& name) const {
    return std::none_of(options_.no_decay.begin(), options_.no_decay.end(),
                        [&](const std::string& pattern) { return name.find(pattern) != std::string::npos; });
  }

  /// Views of master and moments for every parameter, and the runs of equal decay.
  void name_state(const BucketPlan& plan, const std::vector<Unit>& units, Bucket& bucket) {
    for (const std::size_t index : plan.parameters) {
      Parameter& parameter = p_.parameters[index];
      const Value weight = p_.value(parameter.weight);
      const ValueId base = p_.base_of(parameter.weight);
      const auto unit =
          std::find_if(units.begin(), units.end(), [&](const Unit& u) { return u.weight == base; });
      const std::int64_t begin = unit->begin + weight.offset / size_of(weight.dtype),
                         count = weight.rows * weight.cols;
      const auto slice = [&](ValueId of, const char* suffix) {
        return of == kNoValue ? kNoValue
                              : add_slice(p_, parameter.name + suffix, of, begin, weight.rows, weight.cols);
      };
      parameter.master = slice(bucket.master, ".master");
      parameter.exp_avg = slice(bucket.exp_avg, ".exp_avg");
      parameter.exp_avg_sq = slice(bucket.exp_avg_sq, ".exp_avg_sq");
      const bool decay = decays(parameter.name);
      if (!bucket.runs.empty() && bucket.runs.back().decay == decay &&
          bucket.runs.back().begin + bucket.runs.back().count == begin)
        bucket.runs.back().count += count;
      else
        bucket.runs.push_back({begin, count, decay});
    }
  }

  static void add_padding(const std::vector<Unit>& units, Bucket& bucket) {
    for (std::size_t i = 0; i < units.size(); ++i) {
      const std::int64_t end = units[i].begin + units[i].count;
      const std::int64_t next = i + 1 < units.size() ? units[i + 1].begin : bucket.elements;
      if (next > end) bucket.padding.push_back({end, next - end, false});
    }
  }

  void place_weights(const std::string& name, const std::vector<Unit>& units, const Bucket& bucket) {
    const DType compute = p_.value(units.front().weight).dtype;
    if (!options_.weights_apart && (compute == DType::f32 || only_embedded(units))) {
      for (const Unit& unit : units) {
        retype(p_, unit.weight, DType::f32);
        rebase(p_, unit.weight, bucket.master, unit.begin * size_of(DType::f32));
      }
      return;
    }
    switch (options_.residency) {
      case Residency::per_use:
        gather_per_use(name, units, bucket, compute);
        return;
      case Residency::persistent:
        gather_into(name + ".weight", Lifetime::persistent, units, bucket, compute);
        return;
      case Residency::per_step: {
        const ValueId weights = gather_into(name + ".weight", Lifetime::step, units, bucket, compute);
        gather_.nodes.push_back(cast_node(bucket.master, weights, bucket.name));
        return;
      }
    }
  }

  ValueId gather_into(const std::string& name, Lifetime lifetime, const std::vector<Unit>& units,
                      const Bucket& bucket, DType compute) {
    const ValueId weights = add_value(p_, name, compute, 1, bucket.elements, Role::weight, lifetime);
    for (const Unit& unit : units) rebase(p_, unit.weight, weights, unit.begin * size_of(compute));
    return weights;
  }

  /// Each segment that reads the bucket gets its own weights, made just before their first use. The first
  /// such segment keeps the builder's values, later ones get copies.
  void gather_per_use(const std::string& name, const std::vector<Unit>& units, const Bucket& bucket,
                      DType compute) {
    const ValueId weights = gather_into(name + ".weight", Lifetime::slot, units, bucket, compute);
    bool first = true;
    for (Segment& segment : p_.segments) {
      const auto use = std::find_if(segment.nodes.begin(), segment.nodes.end(),
                                    [&](const Node& n) { return reads_base(n, weights); });
      if (use == segment.nodes.end()) continue;
      const std::size_t position = static_cast<std::size_t>(use - segment.nodes.begin());
      const ValueId here = first ? weights : copy_bucket(weights, segment);
      Node cast = cast_node(bucket.master, here, bucket.name);
      cast.tag.layer = use->tag.layer;
      segment.nodes.insert(segment.nodes.begin() + static_cast<std::ptrdiff_t>(position), std::move(cast));
      first = false;
    }
  }

  /// Copies a weight bucket with its views, and points the segment's nodes to the copies.
  ValueId copy_bucket(ValueId weights, Segment& segment) {
    const std::string suffix = "." + segment.name;
    const ValueId copy = copy_value(p_, weights, p_.value(weights).name + suffix);
    std::map<ValueId, ValueId> copies;
    for (Node& node : segment.nodes)
      redirect(node, [&](ValueId id) {
        if (p_.value(id).base != weights) return id;
        auto [it, added] = copies.try_emplace(id, kNoValue);
        if (added) {
          it->second = copy_value(p_, id, p_.value(id).name + suffix);
          p_.value(it->second).base = copy;
        }
        return it->second;
      });
    return copy;
  }

  bool reads_base(const Node& node, ValueId base) const {
    bool found = false;
    for_each_operand(node.op, [&](const Operand& o, Access, std::string_view) {
      found = found || p_.base_of(o.value) == base;
    });
    return found;
  }

  bool only_embedded(const std::vector<Unit>& units) const {
    for (const Segment& segment : p_.segments)
      for (const Node& node : segment.nodes) {
        if (std::holds_alternative<Embedding>(node.op)) continue;
        if (std::any_of(units.begin(), units.end(),
                        [&](const Unit& u) { return reads_base(node, u.weight); }))
          return false;
      }
    return true;
  }

  Node cast_node(ValueId master, ValueId weights, const std::string& bucket) {
    if (gather_.name.empty()) gather_.name = "gather";
    Node node;
    if (p_.value(weights).dtype == p_.value(master).dtype)
      node.op = Copy{.x = operand<In>(p_, master), .y = operand<Out>(p_, weights)};
    else
      node.op = Cast{.x = operand<In>(p_, master), .y = operand<Out>(p_, weights)};
    node.tag = {.layer = bucket.starts_with("layers.") ? std::stoi(bucket.substr(7)) : -1,
                .phase = Phase::gather};
    node.id = p_.next_node++;
    return node;
  }

  Program p_;
  const ShardOptions& options_;
  Segment gather_;
};

}  // namespace

Program shard_parameters(Program program, const std::vector<BucketPlan>& plan, const ShardOptions& options) {
  return Sharder(std::move(program), options).run(plan);
}

}  // namespace titan
