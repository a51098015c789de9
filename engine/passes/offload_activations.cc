#include "engine/passes/offload_activations.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>

#include "engine/program/edit.h"

namespace titan {
namespace {

/// A value on its way: written last and read first at these nodes of forward and backward.
struct Saved {
  ValueId device = kNoValue, host = kNoValue, back = kNoValue;
  int layer = 0;
  std::size_t last_write = 0, first_read = 0;
};

/// For every node of a segment, which run of nodes of one layer it is in; and where the runs begin.
struct Blocks {
  std::vector<std::size_t> of, begin;

  explicit Blocks(const std::vector<Node>& nodes) {
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      if (i == 0 || nodes[i].tag.layer != nodes[i - 1].tag.layer) begin.push_back(i);
      of.push_back(begin.size() - 1);
    }
  }
};

class ActivationOffloader {
 public:
  ActivationOffloader(Program& program, const ActivationOffload& options) : p_(program), options_(options) {}

  void run() {
    find_saved();
    for (Saved& saved : saved_) declare(saved);
    copy_out();
    copy_back();
  }

 private:
  std::vector<Node>& forward() { return p_.segment("forward").nodes; }
  std::vector<Node>& backward() { return p_.segment("backward").nodes; }

  int offloaded_layers() {
    int layers = 0;
    for (const Node& node : forward()) layers = std::max(layers, node.tag.layer + 1);
    return options_.layers < 0 ? layers - 1
                               : static_cast<int>(std::min<std::int64_t>(options_.layers, layers));
  }

  bool may_leave(ValueId base) const {
    const Value& v = p_.value(base);
    return v.role == Role::activation && v.lifetime == Lifetime::slot && v.space == Space::device &&
           v.bytes() > 0 && v.bytes() >= options_.min_bytes;
  }

  void find_saved() {
    const int layers = offloaded_layers();
    std::map<ValueId, Saved> made;
    for (std::size_t i = 0; i < forward().size(); ++i)
      for_each_operand(forward()[i].op, [&](const Operand& o, Access access, std::string_view) {
        const ValueId base = p_.base_of(o.value);
        if (!writes(access) || !may_leave(base)) return;
        Saved& saved =
            made.try_emplace(base, Saved{.device = base, .layer = forward()[i].tag.layer}).first->second;
        saved.last_write = i;
      });
    std::set<ValueId> seen;
    for (std::size_t i = 0; i < backward().size(); ++i)
      for_each_operand(backward()[i].op, [&](const Operand& o, Access, std::string_view) {
        const auto it = made.find(p_.base_of(o.value));
        if (it == made.end() || it->second.layer < 0 || it->second.layer >= layers) return;
        if (!seen.insert(it->first).second) return;
        saved_.push_back(it->second);
        saved_.back().first_read = i;
      });
  }

  void declare(Saved& saved) {
    const std::string name = p_.value(saved.device).name;
    saved.host = copy_value(p_, saved.device, name + ".host");
    p_.value(saved.host).space = Space::host;
    saved.back = copy_value(p_, saved.device, name + ".back");
    replacement_[saved.device] = saved.back;
  }

  Node copy(ValueId from, ValueId to, Lane lane, int layer) {
    return {Copy{.x = operand<In>(p_, from), .y = operand<Out>(p_, to)},
            lane,
            {.layer = layer, .phase = Phase::offload},
            p_.next_node++,
            {}};
  }

  /// The block after the next waits: it may take the memory.
  void copy_out() {
    std::vector<Node>& nodes = forward();
    const Blocks blocks(nodes);
    std::vector<std::vector<Node>> behind(nodes.size());
    std::vector<NodeId> last(blocks.begin.size(), -1);
    std::vector<Saved> in_order = saved_;
    std::stable_sort(in_order.begin(), in_order.end(),
                     [](const Saved& a, const Saved& b) { return a.last_write < b.last_write; });
    for (const Saved& saved : in_order) {
      behind[saved.last_write].push_back(copy(saved.device, saved.host, Lane::spill, saved.layer));
      last[blocks.of[saved.last_write]] = behind[saved.last_write].back().id;
    }
    for (std::size_t b = 0; b + 2 < last.size(); ++b)
      if (last[b] >= 0) nodes[blocks.begin[b + 2]].after.push_back(last[b]);
    std::vector<Node> result;
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      result.push_back(std::move(nodes[i]));
      std::move(behind[i].begin(), behind[i].end(), std::back_inserter(result));
    }
    nodes = std::move(result);
  }

  /// One block ahead of the reader, and not before what precedes that block is done.
  void copy_back() {
    std::vector<Node>& nodes = backward();
    const Blocks blocks(nodes);
    std::vector<std::vector<Node>> before(nodes.size());
    for (const Saved& saved : saved_) {
      const std::size_t block = blocks.of[saved.first_read];
      const std::size_t at = blocks.begin[block > 0 ? block - 1 : 0];
      Node node = copy(saved.host, saved.back, Lane::reload, saved.layer);
      if (at > 0) node.after.push_back(nodes[at - 1].id);
      before[at].push_back(std::move(node));
    }
    std::vector<Node> result;
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      std::move(before[i].begin(), before[i].end(), std::back_inserter(result));
      redirect(nodes[i], [&](ValueId id) { return back_of(id); });
      result.push_back(std::move(nodes[i]));
    }
    nodes = std::move(result);
  }

  /// The same rectangle of the value that has come back.
  ValueId back_of(ValueId id) {
    const auto known = replacement_.find(id);
    if (known != replacement_.end()) return known->second;
    const auto base = replacement_.find(p_.base_of(id));
    if (base == replacement_.end()) return id;
    const ValueId back = base->second;
    const ValueId view = copy_value(p_, id, p_.value(id).name + ".back");
    p_.value(view).base = back;
    replacement_[id] = view;
    return view;
  }

  Program& p_;
  const ActivationOffload& options_;
  std::vector<Saved> saved_;  ///< in the order of the backward's first reads
  std::map<ValueId, ValueId> replacement_;
};

}  // namespace

Program offload_activations(Program program, const ActivationOffload& options) {
  if (!has_segment(program, "forward") || !has_segment(program, "backward")) return program;
  ActivationOffloader(program, options).run();
  return program;
}

}  // namespace titan
