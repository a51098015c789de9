#include "engine/passes/quantize.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "engine/program/edit.h"
#include "kernels/base/error.h"

namespace titan {
namespace {

/// A matrix in 8 bits. Tensorwise, both orientations share the scale.
struct Float8 {
  ValueId plain = kNoValue, scale = kNoValue;
  ValueId transposed = kNoValue, scale_transposed = kNoValue;
};

/// Rows of a weight that one product uses.
struct Part {
  std::int64_t first_row, rows;
  bool quantized;
};

Out* amax_of_result(Op& op, ValueId x) {
  if (auto* o = std::get_if<RmsNorm>(&op)) return o->y.value == x ? &o->amax : nullptr;
  if (auto* o = std::get_if<RmsNormGrad>(&op)) return o->dx.value == x ? &o->amax : nullptr;
  if (auto* o = std::get_if<Rope>(&op)) return o->y.value == x ? &o->amax : nullptr;
  if (auto* o = std::get_if<SwiGlu>(&op)) return o->y.value == x ? &o->amax : nullptr;
  if (auto* o = std::get_if<SwiGluGrad>(&op)) return o->dgate_up.value == x ? &o->amax : nullptr;
  return nullptr;
}

/// Where an operation that writes all of x can put x in 8 bits with a scale a row.
struct RowOutputs {
  Out *quantized = nullptr, *scale = nullptr;
};

RowOutputs rows_of_result(Op& op, ValueId x) {
  const auto of = [x](auto& o, const Operand& y) {
    return y.value == x ? RowOutputs{&o.quantized, &o.scale} : RowOutputs{};
  };
  if (auto* o = std::get_if<RmsNorm>(&op)) return of(*o, o->y);
  if (auto* o = std::get_if<SwiGlu>(&op)) return of(*o, o->y);
  if (auto* o = std::get_if<SwiGluGrad>(&op)) return of(*o, o->dgate_up);
  return {};
}

/// Which orientations of a weight a segment multiplies: as it is in forward products, transposed for input
/// gradients.
struct Orientations {
  bool plain = false, transposed = false;
};

class Quantizer {
 public:
  Quantizer(Program program, const std::vector<Float8Linear>& linears, const Float8Recipe& recipe)
      : p_(std::move(program)), recipe_(recipe), tensorwise_(recipe.scaling == Float8Scaling::tensorwise) {
    for (const Float8Linear& linear : linears) add_part(linear);
    std::erase_if(parts_, [](const auto& entry) {
      return std::none_of(entry.second.begin(), entry.second.end(),
                          [](const Part& p) { return p.quantized; });
    });
    for (const Parameter& parameter : p_.parameters)
      if (parameter.gradient != kNoValue && parts_.contains(p_.base_of(parameter.weight)))
        weight_of_gradient_[p_.base_of(parameter.gradient)] = p_.base_of(parameter.weight);
  }

  Program run() {
    if (parts_.empty()) return std::move(p_);
    for (Segment& segment : p_.segments) rewrite(segment);
    if (!once_a_step_.empty()) {
      p_.timeline.insert(p_.timeline.begin(),
                         TimelineStep{.segment = static_cast<int>(p_.segments.size()), .variant = {}});
      p_.segments.push_back({"quantize", std::move(once_a_step_)});
    }
    return std::move(p_);
  }

 private:
  void add_part(const Float8Linear& linear) {
    std::vector<Part>& parts = parts_[linear.weight];
    if (!parts.empty() && parts.back().quantized == linear.quantized() && !linear.quantized())
      parts.back().rows += linear.rows;
    else
      parts.push_back({linear.first_row, linear.rows, linear.quantized()});
  }

  bool trains() const { return !weight_of_gradient_.empty(); }
  bool quantizes_weight_grads() const {
    return trains() && recipe_.scaling != Float8Scaling::rowwise_with_gw_hp;
  }
  DType gradient_dtype() const { return tensorwise_ ? DType::f8e5m2 : DType::f8e4m3; }

  // --- Nodes ----------------------------------------------------------------------------------------------

  const std::vector<Part>* parts_of(const Operand& weight) const {
    const auto it = parts_.find(p_.base_of(weight.value));
    return it == parts_.end() ? nullptr : &it->second;
  }
  const std::vector<Part>* parts_of_gradient(const Operand& gradient) const {
    const auto it = weight_of_gradient_.find(p_.base_of(gradient.value));
    return it == weight_of_gradient_.end() ? nullptr : &parts_.at(it->second);
  }

  void rewrite(Segment& segment) {
    nodes_.clear();
    if (recipe_.weights_per_use) weights_.clear();
    note_orientations(segment);
    for (Node& node : segment.nodes)
      if (!rewrite(node)) nodes_.push_back(std::move(node));
    segment.nodes = std::move(nodes_);
  }

  bool rewrite(const Node& node) {
    const auto* gemm = std::get_if<Gemm>(&node.op);
    if (gemm == nullptr) return false;
    if (const auto* parts = parts_of(gemm->b)) {
      if (gemm->transpose_b)
        forward(node, *gemm, *parts);
      else
        input_grad(node, *gemm, *parts);
      return true;
    }
    const auto* parts = gemm->transpose_a ? parts_of_gradient(gemm->c) : nullptr;
    if (parts == nullptr) return false;
    weight_grad(node, *gemm, *parts);
    return true;
  }

  /// y = x · weightᵀ
  void forward(const Node& node, const Gemm& gemm, const std::vector<Part>& parts) {
    for (const Part& part : parts) {
      Gemm op = gemm;
      op.c = use_result(columns(gemm.c.value, part), false);
      if (part.quantized) {
        const Float8 x = activation(node.tag, gemm.a.value, DType::f8e4m3);
        const Float8 w = weight(node.tag, gemm.b.value, part);
        op.fast_accumulation = true;
        multiply(op, x.plain, x.scale, w.plain, w.scale);
      } else {
        op.b = use<In>(rows(gemm.b.value, part));
      }
      emit(op, node.tag);
    }
  }

  /// dx = dy · weight
  void input_grad(const Node& node, const Gemm& gemm, const std::vector<Part>& parts) {
    for (const Part& part : parts) {
      Gemm op = gemm;
      op.a = use<In>(columns(gemm.a.value, part));
      op.c.accumulates = parts.size() > 1;
      if (part.quantized) {
        const Float8 dy = activation(node.tag, op.a.value, gradient_dtype());
        const Float8 w = weight(node.tag, gemm.b.value, part);
        multiply(op, dy.plain, dy.scale, w.transposed, w.scale_transposed);
      } else {
        op.b = use<In>(rows(gemm.b.value, part));
      }
      emit(op, node.tag);
    }
  }

  /// dweight += dyᵀ · x
  void weight_grad(const Node& node, const Gemm& gemm, const std::vector<Part>& parts) {
    for (const Part& part : parts) {
      Gemm op = gemm;
      op.a = use<In>(columns(gemm.a.value, part));
      op.c = use_result(rows(gemm.c.value, part), gemm.c.accumulates);
      if (part.quantized && quantizes_weight_grads()) {
        const Tag tag{.layer = node.tag.layer, .phase = Phase::input_grad};
        const Float8 dy = activation(tag, op.a.value, gradient_dtype());
        const Float8 x = activation(tag, gemm.b.value, DType::f8e4m3);
        multiply(op, dy.transposed, dy.scale_transposed, x.transposed, x.scale_transposed);
      }
      emit(op, node.tag);
    }
  }

  void multiply(Gemm& op, ValueId a, ValueId scale_a, ValueId b, ValueId scale_b) {
    op.a = use<In>(a);
    op.b = use<In>(b);
    op.scale_a = use<In>(scale_a);
    op.scale_b = use<In>(scale_b);
    op.transpose_a = false;
    op.transpose_b = true;
  }

  // --- What is multiplied ---------------------------------------------------------------------------------

  /// An activation or a gradient in 8 bits, made where it is first needed.
  Float8 activation(Tag tag, ValueId x, DType dtype) {
    const auto known = activations_.find({x, dtype});
    if (known != activations_.end()) return known->second;
    const ValueId amax = tensorwise_ ? find_amax(tag, x, nodes_) : kNoValue;
    const Float8 made = make(tag, x, amax, dtype, {true, quantizes_weight_grads()},
                             {Role::activation, p_.value(x).lifetime}, nodes_);
    return activations_[{x, dtype}] = made;
  }

  /// Rows of a weight in 8 bits.
  Float8 weight(Tag tag, ValueId whole, const Part& part) {
    const ValueId w = rows(whole, part);
    const auto known = weights_.find(w);
    if (known != weights_.end()) return known->second;
    tag.phase = Phase::gather;
    const bool per_use = recipe_.weights_per_use;
    std::vector<Node>& where = per_use ? nodes_ : once_a_step_;
    const Orientations wanted = per_use ? orientations_.at(p_.base_of(w)) : Orientations{true, trains()};
    const ValueId amax = tensorwise_ ? find_amax(tag, w, where) : kNoValue;
    const Lifetime lifetime = per_use ? Lifetime::slot : Lifetime::step;
    return weights_[w] = make(tag, w, amax, DType::f8e4m3, wanted, {Role::weight, lifetime}, where);
  }

  /// Of one value, wherever it is quantized again: found by the operation that writes it where that can.
  ValueId find_amax(Tag tag, ValueId x, std::vector<Node>& where) {
    auto [it, added] = amaxes_.try_emplace(x, kNoValue);
    if (!added) return it->second;
    const bool once = &where == &once_a_step_;
    it->second = add_value(p_, p_.value(x).name + ".amax", DType::f32, 1, 1, Role::activation,
                           once ? Lifetime::step : Lifetime::slot);
    Out* const fused = fused_amax(where, x);
    if (fused != nullptr)
      *fused = use<Out>(it->second);
    else
      emit(Amax{.x = use<In>(x), .amax = use<Out>(it->second)}, tag, where);
    return it->second;
  }

  /// The amax operand of the node that writes all of x and can find it; null when there is none.
  static Out* fused_amax(std::vector<Node>& nodes, ValueId x) {
    for (auto node = nodes.rbegin(); node != nodes.rend(); ++node)
      if (Out* const amax = amax_of_result(node->op, x); amax != nullptr) return amax;
    return nullptr;
  }

  static RowOutputs fused_rows(std::vector<Node>& nodes, ValueId x) {
    for (auto node = nodes.rbegin(); node != nodes.rend(); ++node)
      if (const RowOutputs outputs = rows_of_result(node->op, x); outputs.quantized != nullptr)
        return outputs;
    return {};
  }

  struct Home {
    Role role;
    Lifetime lifetime;
  };

  Float8 make(Tag tag, ValueId x, ValueId amax, DType dtype, Orientations wanted, Home home,
              std::vector<Node>& where) {
    const std::string name = p_.value(x).name + (dtype == DType::f8e5m2 ? ".e5m2" : ".e4m3");
    const std::int64_t height = p_.value(x).rows, width = p_.value(x).cols;
    const auto add = [&](const char* suffix, DType type, std::int64_t rows, std::int64_t cols) {
      return add_value(p_, name + suffix, type, rows, cols, home.role, home.lifetime);
    };
    Float8 y;
    Quantize op{.x = use<In>(x), .amax = use<In>(amax)};
    if (wanted.plain) op.y = use<Out>(y.plain = add("", dtype, height, width));
    if (wanted.transposed)
      op.y_transposed = use<Out>(y.transposed = add(".transposed", dtype, width, height));
    if (tensorwise_) {
      y.scale = y.scale_transposed = add(".scale", DType::f32, 1, 1);
      op.scale = use<Out>(y.scale);
    } else {
      if (wanted.plain) op.scale = use<Out>(y.scale = add(".scale", DType::f32, height, 1));
      if (wanted.transposed)
        op.scale_transposed = use<Out>(y.scale_transposed = add(".transposed.scale", DType::f32, width, 1));
    }
    if (op.y && !tensorwise_ && dtype == DType::f8e4m3) move_rows(op, fused_rows(where, x));
    if (op.y || op.y_transposed) emit(op, tag, where);
    return y;
  }

  /// Leaves the rows to the operation that writes what they are of, if there is one.
  static void move_rows(Quantize& op, RowOutputs to) {
    if (to.quantized == nullptr) return;
    *to.quantized = std::exchange(op.y, {});
    *to.scale = std::exchange(op.scale, {});
  }

  void note_orientations(const Segment& segment) {
    orientations_.clear();
    for (const Node& node : segment.nodes)
      if (const auto* gemm = std::get_if<Gemm>(&node.op); gemm != nullptr && parts_of(gemm->b) != nullptr) {
        Orientations& used = orientations_[p_.base_of(gemm->b.value)];
        (gemm->transpose_b ? used.plain : used.transposed) = true;
      }
  }

  // --- Values and nodes -----------------------------------------------------------------------------------

  template <class OperandType>
  OperandType use(ValueId id) const {
    return id == kNoValue ? OperandType{} : operand<OperandType>(p_, id);
  }
  Result use_result(ValueId id, bool accumulates) const {
    Result result = operand<Result>(p_, id);
    result.accumulates = accumulates;
    return result;
  }

  void emit(Op op, Tag tag) { emit(std::move(op), tag, nodes_); }
  void emit(Op op, Tag tag, std::vector<Node>& where) {
    Node node;
    node.op = std::move(op);
    node.tag = tag;
    node.id = p_.next_node++;
    where.push_back(std::move(node));
  }

  ValueId columns(ValueId of, const Part& part) {
    return view(of, 0, p_.value(of).rows, part.first_row, part.rows);
  }
  ValueId rows(ValueId of, const Part& part) {
    return view(of, part.first_row, part.rows, 0, p_.value(of).cols);
  }

  /// The whole value, the program's own view of that rectangle, or a new one.
  ValueId view(ValueId of, std::int64_t row, std::int64_t rows, std::int64_t col, std::int64_t cols) {
    Value v = p_.value(of);
    if (rows == v.rows && cols == v.cols) return of;
    v.base = p_.base_of(of);
    v.offset += (row * v.pitch + col) * size_of(v.dtype);
    v.rows = rows;
    v.cols = cols;
    const auto same = std::find_if(p_.values.begin(), p_.values.end(), [&](const Value& other) {
      return other.base == v.base && other.offset == v.offset && other.rows == rows && other.cols == cols &&
             other.pitch == v.pitch;
    });
    if (same != p_.values.end()) return static_cast<ValueId>(same - p_.values.begin());
    v.name += row == 0 && rows == p_.value(of).rows ? fmt::format(".columns.{}", col)
                                                    : fmt::format(".rows.{}", row);
    p_.values.push_back(std::move(v));
    return static_cast<ValueId>(p_.values.size()) - 1;
  }

  Program p_;
  const Float8Recipe& recipe_;
  const bool tensorwise_;
  std::map<ValueId, std::vector<Part>> parts_;     ///< of weights with a quantized part
  std::map<ValueId, ValueId> weight_of_gradient_;  ///< bases
  std::map<ValueId, Orientations> orientations_;   ///< in this segment, by base
  std::map<std::pair<ValueId, DType>, Float8> activations_;
  std::map<ValueId, Float8> weights_;
  std::map<ValueId, ValueId> amaxes_;
  std::vector<Node> nodes_, once_a_step_;
};

}  // namespace

Program quantize(Program program, const std::vector<Float8Linear>& linears, const Float8Recipe& recipe) {
  return Quantizer(std::move(program), linears, recipe).run();
}

}  // namespace titan
