#include "engine/passes/offload_weights.h"

#include <map>
#include <set>

#include "engine/program/edit.h"
#include "kernels/base/error.h"

namespace titan {
namespace {

constexpr std::size_t kInFlight = 2;  ///< buckets between their source and their use

class WeightOffloader {
 public:
  explicit WeightOffloader(Program& program) : p_(program) {
    for (const Bucket& bucket : p_.buckets) masters_.insert(bucket.master);
  }

  void run() {
    Segment casts{.name = "gather", .nodes = {}};
    for (Segment& segment : p_.segments) {
      if (segment.name == "gather") {
        fetch_for_step(segment);
        continue;
      }
      for (Node& node : segment.nodes)
        if (makes_weights(node)) fetch_from_host(node, casts.nodes);
      prefetch(segment);
    }
    if (casts.nodes.empty()) return;
    p_.timeline.insert(p_.timeline.begin(),
                       TimelineStep{.segment = static_cast<int>(p_.segments.size()), .variant = {}});
    p_.segments.push_back(std::move(casts));
  }

 private:
  /// Made from a whole master: a cast, or a copy where weights are f32.
  bool makes_weights(const Node& node) const {
    if (const auto* cast = std::get_if<Cast>(&node.op)) return masters_.contains(cast->x.value);
    if (const auto* copy = std::get_if<Copy>(&node.op)) return masters_.contains(copy->x.value);
    return false;
  }

  /// Turns the node into a copy on the fetch lane, and adds the cast that it needs, once a bucket.
  void fetch_from_host(Node& node, std::vector<Node>& casts) {
    node.lane = Lane::fetch;
    const auto* cast = std::get_if<Cast>(&node.op);
    if (cast == nullptr) return;
    const Cast wanted = *cast;
    const auto [it, added] = host_weights_.try_emplace(wanted.x.value, kNoValue);
    if (added) {
      const Value weights = p_.value(wanted.y.value);
      it->second = add_value(p_, weights.name + ".host", weights.dtype, weights.rows, weights.cols,
                             Role::weight, Lifetime::step);
      p_.value(it->second).space = Space::host;
      casts.push_back(
          {Cast{.x = wanted.x, .y = operand<Out>(p_, it->second)}, Lane::host, node.tag, p_.next_node++, {}});
      casts.back().tag.phase = Phase::gather;
    }
    node.op = Copy{.x = operand<In>(p_, it->second), .y = wanted.y};
  }

  /// Every cast waits for the copy that is two before it: its memory is free then.
  void fetch_for_step(Segment& segment) {
    std::vector<Node> result;
    std::vector<NodeId> copies;
    for (Node& node : segment.nodes) {
      if (!makes_weights(node)) {
        result.push_back(std::move(node));
        continue;
      }
      const std::size_t before = result.size();
      fetch_from_host(node, result);
      if (result.size() > before && copies.size() >= kInFlight)
        result.back().after.push_back(copies[copies.size() - kInFlight]);
      copies.push_back(node.id);
      result.push_back(std::move(node));
    }
    segment.nodes = std::move(result);
  }

  struct Fetch {
    std::size_t position, last_use;
    ValueId weights;
  };

  std::vector<Fetch> fetches_of(const Segment& segment) const {
    std::vector<Fetch> fetches;
    std::map<ValueId, std::size_t> index;
    for (std::size_t i = 0; i < segment.nodes.size(); ++i) {
      const Node& node = segment.nodes[i];
      if (node.lane == Lane::fetch) {
        const ValueId weights = std::get<Copy>(node.op).y.value;
        index[weights] = fetches.size();
        fetches.push_back({i, i, weights});
        continue;
      }
      for_each_operand(node.op, [&](const Operand& o, Access, std::string_view) {
        const auto used = index.find(p_.base_of(o.value));
        if (used != index.end()) fetches[used->second].last_use = i;
      });
    }
    return fetches;
  }

  /// Moves every copy to where the bucket before it is first used. It waits for the last use of the bucket
  /// before that one, whose memory it may take.
  void prefetch(Segment& segment) {
    const std::vector<Fetch> fetches = fetches_of(segment);
    if (fetches.size() < kInFlight) return;
    std::vector<Node>& nodes = segment.nodes;
    for (std::size_t k = kInFlight; k < fetches.size(); ++k) {
      const Fetch& gone = fetches[k - kInFlight];
      if (gone.last_use < fetches[k - 1].position)
        nodes[fetches[k].position].after.push_back(nodes[gone.last_use].id);
    }
    std::vector<Node> result;
    std::size_t k = 0;
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      if (k == fetches.size() || i != fetches[k].position) {
        result.push_back(std::move(nodes[i]));
        continue;
      }
      if (k == 0) result.push_back(nodes[i]);
      if (k + 1 < fetches.size()) result.push_back(nodes[fetches[k + 1].position]);
      ++k;
    }
    nodes = std::move(result);
  }

  Program& p_;
  std::set<ValueId> masters_;
  std::map<ValueId, ValueId> host_weights_;  ///< by master
};

}  // namespace

void offload_weights(Program& program) { WeightOffloader(program).run(); }

}  // namespace titan
