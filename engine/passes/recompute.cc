#include "engine/passes/recompute.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <map>
#include <set>
#include <unordered_map>

#include "engine/program/edit.h"
#include "kernels/base/error.h"
#include "kernels/cost/cost.h"

namespace titan {
namespace {

/// The forward segment seen from the backward: who makes which base value, and what the backward reads.
class Activations {
 public:
  explicit Activations(const Program& program) : p_(program), forward_(program.segment("forward").nodes) {
    for (std::size_t i = 0; i < forward_.size(); ++i)
      for_each_operand(forward_[i].op, [&](const Operand& o, Access access, std::string_view) {
        if (writes(access)) producers_[p_.base_of(o.value)].push_back(i);
      });
    for (const Node& node : program.segment("backward").nodes)
      for_each_operand(node.op, [&](const Operand& o, Access access, std::string_view) {
        if (!reads(access) || !produced(p_.base_of(o.value))) return;
        read_.insert(p_.base_of(o.value));
        if (node.tag.layer < 0) pinned_.insert(p_.base_of(o.value));
      });
    for (const auto& [base, nodes] : producers_) for_each_reader_layer(base, nodes);
  }

  bool produced(ValueId base) const { return producers_.contains(base); }
  const std::vector<std::size_t>& producers(ValueId base) const { return producers_.at(base); }
  const std::vector<Node>& forward() const { return forward_; }
  /// Bases that the backward reads.
  const std::set<ValueId>& read() const { return read_; }
  /// Always kept: block inputs, and what the loss head reads.
  bool pinned(ValueId base) const { return pinned_.contains(base); }
  int layer(ValueId base) const { return forward_[producers_.at(base).front()].tag.layer; }

 private:
  /// A block's input is what the block reads as residual stream: made before it or by its first norm.
  void for_each_reader_layer(ValueId base, const std::vector<std::size_t>& nodes) {
    const Node& maker = forward_[nodes.front()];
    if (std::holds_alternative<Embedding>(maker.op)) pinned_.insert(base);
    const auto* norm = std::get_if<RmsNorm>(&maker.op);
    const bool first_of_block = nodes.front() > 0 && forward_[nodes.front() - 1].tag.layer != maker.tag.layer;
    if (norm != nullptr && norm->sum && p_.base_of(norm->sum.value) == base && first_of_block)
      pinned_.insert(base);
  }

  const Program& p_;
  const std::vector<Node>& forward_;
  std::unordered_map<ValueId, std::vector<std::size_t>> producers_;
  std::set<ValueId> read_, pinned_;
};

using KeptSet = std::set<ValueId>;

/// The operand, if there is one, by which an operation tells the largest magnitude it saw: four bytes, which
/// are always kept (rule E4b).
Out* amax_of(Op& op) {
  return std::visit(
      [](auto& o) -> Out* {
        if constexpr (requires { o.amax; })
          if constexpr (std::is_same_v<std::remove_reference_t<decltype(o.amax)>, Out>)
            return o.amax ? &o.amax : nullptr;
        return nullptr;
      },
      op);
}
ValueId amax_value(Op op) {
  const Out* const amax = amax_of(op);
  return amax == nullptr ? kNoValue : amax->value;
}

/// A norm whose input sum is at hand needs neither of the addends.
void start_from_sum(RmsNorm& norm) {
  static_cast<Operand&>(norm.x) = norm.sum;
  norm.sum = {};
  norm.delta = {};
}

/// Forward nodes to run again so that `wanted` exist, in order, when `kept` do.
class Closure {
 public:
  Closure(const Program& program, const Activations& activations, const KeptSet& kept)
      : p_(program), a_(activations), kept_(kept) {}

  void need(ValueId base) {
    if (!a_.produced(base) || kept_.contains(base)) return;
    for (const std::size_t index : a_.producers(base)) need_node(index);
  }
  const std::set<std::size_t>& nodes() const { return nodes_; }

 private:
  void need_node(std::size_t index) {
    if (!nodes_.insert(index).second) return;
    Op op = a_.forward()[index].op;
    if (auto* norm = std::get_if<RmsNorm>(&op);
        norm != nullptr && norm->sum && kept_.contains(p_.base_of(norm->sum.value)))
      start_from_sum(*norm);
    for_each_operand(op, [&](Operand& o, Access access, std::string_view) {
      if (access == Access::in) need(p_.base_of(o.value));
    });
  }

  const Program& p_;
  const Activations& a_;
  const KeptSet& kept_;
  std::set<std::size_t> nodes_;
};

/// Inserts the clones.
class Cloner {
 public:
  Cloner(Program& program, KeptSet kept) : p_(program), a_(program), kept_(std::move(kept)) {}

  void run() {
    std::vector<Node> result;
    for (Node& node : p_.segment("backward").nodes) {
      std::set<ValueId> bases;
      for_each_operand(node.op, [&](const Operand& o, Access access, std::string_view) {
        if (reads(access)) bases.insert(p_.base_of(o.value));
      });
      for (const ValueId base : bases) clone_for(base, result);
      redirect(node, [&](ValueId id) { return replacement(id); });
      result.push_back(std::move(node));
    }
    drop_unread(result);
    p_.segment("backward").nodes = std::move(result);
  }

 private:
  void clone_for(ValueId base, std::vector<Node>& result) {
    Closure closure(p_, a_, kept_);
    closure.need(base);
    for (const std::size_t index : closure.nodes())
      if (cloned_.insert(index).second) result.push_back(clone(a_.forward()[index]));
  }

  /// A matrix quantized again is often read in one orientation only.
  void drop_unread(std::vector<Node>& nodes) const {
    std::set<ValueId> read;
    for (const Node& node : nodes)
      for_each_operand(node.op, [&](const Operand& o, Access access, std::string_view) {
        if (reads(access)) read.insert(o.value);
      });
    for (Node& node : nodes) {
      if (node.tag.phase != Phase::recompute) continue;
      drop_unread_rows(node.op, read);
      auto* quantize = std::get_if<Quantize>(&node.op);
      if (quantize == nullptr) continue;
      for (Out* y : {&quantize->y, &quantize->y_transposed})
        if (!read.contains(y->value)) *y = {};
      if (quantize->amax) continue;
      if (!quantize->y) quantize->scale = {};
      if (!quantize->y_transposed) quantize->scale_transposed = {};
    }
  }

  /// 8-bit rows that an operation wrote for a forward product.
  static void drop_unread_rows(Op& op, const std::set<ValueId>& read) {
    std::visit(
        [&](auto& o) {
          if constexpr (requires { o.quantized; })
            if (o.quantized && !read.contains(o.quantized.value)) o.quantized = o.scale = {};
        },
        op);
  }

  Node clone(const Node& node) {
    Node copy = node;
    copy.id = p_.next_node++;
    copy.after.clear();
    copy.tag.phase = Phase::recompute;
    if (auto* norm = std::get_if<RmsNorm>(&copy.op);
        norm != nullptr && norm->sum && kept_.contains(p_.base_of(norm->sum.value)))
      start_from_sum(*norm);
    if (Out* const amax = amax_of(copy.op); amax != nullptr) *amax = {};
    for_each_operand(copy.op, [&](Operand& o, Access access, std::string_view) {
      TITAN_CHECK(access != Access::state && access != Access::accumulate, "recompute must not clone {}",
                  name_of(node.op));
      o.value = writes(access) ? copy_of(o.value) : replacement(o.value);
    });
    return copy;
  }

  /// The value that the backward reads instead: kept values stay, others have a copy by now.
  ValueId replacement(ValueId id) {
    const ValueId base = p_.base_of(id);
    return kept_.contains(base) || !copies_.contains(base) ? id : copy_of(id);
  }

  /// The same value in the backward's own memory; views of one base stay views of one base.
  ValueId copy_of(ValueId id) {
    const auto known = copies_.find(id);
    if (known != copies_.end()) return known->second;
    const ValueId base = p_.value(id).base;
    const ValueId copied_base = base == kNoValue ? kNoValue : copy_of(base);
    const ValueId copy = copy_value(p_, id, p_.value(id).name + ".again");
    p_.value(copy).base = copied_base;
    copies_[id] = copy;
    return copy;
  }

  Program& p_;
  Activations a_;
  KeptSet kept_;
  std::set<std::size_t> cloned_;
  std::map<ValueId, ValueId> copies_;
};

// --- Policies
// ---------------------------------------------------------------------------------------------------------

/// What one layer may keep: groups of values that are made together.
struct Group {
  std::vector<ValueId> bases;
  std::int64_t bytes = 0;
  bool selective = false;  ///< kept by the per-op policy
};

/// One group for each forward node of the layer, and one for the sum a norm makes beside its result: blocks
/// are alike, so the i-th group of one block is the i-th of every other. Groups of nothing that there is to
/// choose have no bytes.
std::vector<Group> groups_of(const Program& p, const Activations& a, int layer) {
  std::vector<Group> groups;
  for (const Node& node : a.forward()) {
    if (node.tag.layer != layer) continue;
    Group main, sum;
    const auto* norm = std::get_if<RmsNorm>(&node.op);
    for_each_operand(node.op, [&](const Operand& o, Access access, std::string_view) {
      const ValueId base = p.base_of(o.value);
      if (!writes(access) || !a.read().contains(base) || a.pinned(base) || o.value == amax_value(node.op))
        return;
      Group& group = norm != nullptr && o.value == norm->sum.value ? sum : main;
      group.bases.push_back(base);
      group.bytes += p.value(base).bytes();
    });
    main.selective = std::holds_alternative<Gemm>(node.op) || std::holds_alternative<Attention>(node.op) ||
                     std::holds_alternative<Rope>(node.op);
    groups.push_back(std::move(main));
    if (norm != nullptr) groups.push_back(std::move(sum));
  }
  return groups;
}

struct Option {
  std::uint64_t kept = 0;  ///< bit i: group i
  std::int64_t bytes = 0;
  double seconds = 0;
};

class Policy {
 public:
  Policy(const Program& program, const Machine& machine) : p_(program), a_(program), machine_(machine) {
    for (const Node& node : a_.forward()) layers_ = std::max(layers_, node.tag.layer + 1);
    for (const ValueId base : a_.read())
      if (a_.pinned(base)) kept_.insert(base);
    for (const Node& node : a_.forward())
      if (const ValueId amax = amax_value(node.op); amax != kNoValue) kept_.insert(p_.base_of(amax));
    for (int layer = 0; layer < layers_; ++layer) groups_.push_back(groups_of(p_, a_, layer));
  }

  KeptSet choose(const RecomputePolicy& policy) {
    using Mode = RecomputePolicy::Mode;
    if (policy.mode == Mode::memory_budget) {
      keep_within(policy.budget);
      return kept_;
    }
    for (int layer = 0; layer < layers_; ++layer) {
      const bool all =
          policy.mode == Mode::none || (policy.mode == Mode::every_layer && (layer + 1) % policy.every != 0);
      for (const Group& group : groups_[static_cast<std::size_t>(layer)])
        if (all || (policy.mode == Mode::selective && group.selective)) keep(group);
    }
    return kept_;
  }

 private:
  void keep(const Group& group) { kept_.insert(group.bases.begin(), group.bases.end()); }

  void keep(int layer, std::uint64_t choice) {
    const std::vector<Group>& groups = groups_[static_cast<std::size_t>(layer)];
    for (std::size_t g = 0; g < groups.size(); ++g)
      if (choice >> g & 1u) keep(groups[g]);
  }

  /// Predicted seconds to compute again what `choice` does not keep of a layer.
  double seconds(int layer, std::uint64_t choice) const {
    const std::vector<Group>& groups = groups_[static_cast<std::size_t>(layer)];
    KeptSet kept = kept_;
    for (std::size_t g = 0; g < groups.size(); ++g)
      if (choice >> g & 1u) kept.insert(groups[g].bases.begin(), groups[g].bases.end());
    Closure closure(p_, a_, kept);
    for (const Group& group : groups)
      for (const ValueId base : group.bases) closure.need(base);
    double total = 0;
    for (const std::size_t index : closure.nodes()) total += cost(a_.forward()[index].op, machine_).seconds;
    return total;
  }

  /// The choices of a layer that no other choice beats in both bytes and seconds, by growing bytes.
  std::vector<Option> frontier(int layer) const {
    const std::vector<Group>& groups = groups_[static_cast<std::size_t>(layer)];
    std::vector<Option> options{{.kept = 0, .bytes = 0, .seconds = 0}};
    for (std::size_t g = 0; g < groups.size(); ++g) {
      if (groups[g].bytes == 0) continue;
      const std::size_t without = options.size();
      for (std::size_t i = 0; i < without; ++i)
        options.push_back({.kept = options[i].kept | std::uint64_t{1} << g,
                           .bytes = options[i].bytes + groups[g].bytes,
                           .seconds = 0});
    }
    for (Option& option : options) option.seconds = seconds(layer, option.kept);
    std::sort(options.begin(), options.end(), [](const Option& a, const Option& b) {
      return a.bytes != b.bytes       ? a.bytes < b.bytes
             : a.seconds != b.seconds ? a.seconds < b.seconds
                                      : a.kept < b.kept;
    });
    std::vector<Option> best;
    for (const Option& option : options)
      if (best.empty() || option.seconds < best.back().seconds) best.push_back(option);
    return best;
  }

  /// Blocks are alike, so the best mix has two kinds of block, plus one odd block that uses up the rest: all
  /// such mixes are tried.
  void keep_within(double budget) {
    if (layers_ == 0) return;
    const int inner = layers_ > 1 ? 1 : 0;  // the first block lacks the addition before its norm
    const std::vector<Option> options = frontier(inner);
    const std::vector<Option> odd_options =
        frontier(layers_ - 1);  // part of the last block is kept for the loss head anyway
    std::int64_t most = 0;
    for (const std::vector<Group>& layer : groups_)
      for (const Group& group : layer) most += group.bytes;
    const double allowed = budget * static_cast<double>(most);
    struct Mix {
      const Option* a;
      const Option* b;
      const Option* odd;
      int a_count;
      double seconds;
    } best{&options.front(), &options.front(), &odd_options.front(), 0, std::numeric_limits<double>::max()};
    for (const Option& a : options)
      for (const Option& b : options) {
        if (b.bytes < a.bytes) continue;
        for (int count = 0; count < layers_; ++count) {
          const double bytes =
              static_cast<double>(a.bytes) * count + static_cast<double>(b.bytes) * (layers_ - 1 - count);
          if (bytes > allowed) continue;
          // The largest odd block that fits: options grow in bytes and fall in seconds.
          const auto fits = [&](const Option& o) { return bytes + static_cast<double>(o.bytes) <= allowed; };
          const auto end = std::partition_point(odd_options.begin(), odd_options.end(), fits);
          if (end == odd_options.begin()) continue;
          const Option& odd = *std::prev(end);
          const double seconds = a.seconds * count + b.seconds * (layers_ - 1 - count) + odd.seconds;
          if (seconds < best.seconds) best = {&a, &b, &odd, count, seconds};
        }
      }
    for (int layer = 0; layer < layers_; ++layer)
      keep(layer, layer == layers_ - 1 ? best.odd->kept : layer < best.a_count ? best.a->kept : best.b->kept);
  }

  const Program& p_;
  Activations a_;
  const Machine& machine_;
  int layers_ = 0;
  std::vector<std::vector<Group>> groups_;
  KeptSet kept_;
};

bool has_segments(const Program& program) {
  return has_segment(program, "forward") && has_segment(program, "backward");
}

}  // namespace

RecomputePolicy recompute_policy(const std::string& mode, const std::string& selective_option,
                                 double memory_budget) {
  using Mode = RecomputePolicy::Mode;
  if (mode == "none") return {.mode = Mode::none};
  if (mode == "full") return {.mode = Mode::full};
  if (mode == "memory_budget") {
    if (!(memory_budget >= 0 && memory_budget <= 1))
      throw UsageError(fmt::format(
          "activation_checkpoint.memory_budget is {}; it goes from 0 (recompute all) to 1 (keep all)",
          memory_budget));
    return {.mode = Mode::memory_budget, .budget = memory_budget};
  }
  if (mode != "selective")
    throw UsageError(
        fmt::format("activation_checkpoint.mode is '{}'; use none, full, selective or memory_budget", mode));
  if (selective_option == "op") return {.mode = Mode::selective};
  int every = 0;
  const char* end = selective_option.data() + selective_option.size();
  const auto [stop, error] = std::from_chars(selective_option.data(), end, every);
  if (error != std::errc{} || stop != end || every < 1)
    throw UsageError(fmt::format(
        "activation_checkpoint.selective_ac_option is '{}'; use 'op' or a number of layers (1, 2, …)",
        selective_option));
  return {.mode = Mode::every_layer, .every = every};
}

Program recompute(Program program, const RecomputePolicy& policy, const Machine& machine) {
  if (!has_segments(program) || policy.mode == RecomputePolicy::Mode::none) return program;
  KeptSet kept = Policy(program, machine).choose(policy);
  Cloner(program, std::move(kept)).run();
  return program;
}

std::int64_t saved_activation_bytes(const Program& program) {
  if (!has_segments(program)) return 0;
  std::int64_t bytes = 0;
  const Activations activations(program);
  for (const ValueId base : activations.read()) bytes += program.value(base).bytes();
  return bytes;
}

}  // namespace titan
