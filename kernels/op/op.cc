#include "kernels/op/op.h"

#include <fmt/format.h>

#include <type_traits>

namespace titan {
namespace {

/// Walks "x, delta, weight" one name at a time.
class Names {
 public:
  explicit Names(std::string_view list) : rest_(list) {}
  std::string_view next() {
    const std::size_t comma = rest_.find(',');
    const std::string_view name = rest_.substr(0, comma);
    rest_ = comma == std::string_view::npos ? std::string_view{} : rest_.substr(comma + 2);
    return name;
  }

 private:
  std::string_view rest_;
};

template <class T>
inline constexpr bool is_vector = false;
template <class T>
inline constexpr bool is_vector<std::vector<T>> = true;

template <class OpType, class F>
void walk(OpType& op, F f) {
  Names names(std::remove_const_t<OpType>::kOperandNames);
  auto visit_field = [&](auto& field) {
    const std::string_view name = names.next();
    if constexpr (is_vector<std::remove_cvref_t<decltype(field)>>) {
      for (auto& element : field) f(element, element.access(), name);
    } else {
      if (field) f(field, field.access(), name);
    }
  };
  std::apply([&](auto&... fields) { (visit_field(fields), ...); }, op.operands());
}

class AttributeList {
 public:
  template <class T>
  AttributeList& add(std::string_view name, const T& value, const T& standard) {
    if (value != standard) text_ += fmt::format("{}{}={}", text_.empty() ? "" : " ", name, value);
    return *this;
  }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

AttributeList& add_shape(AttributeList& list, const AttentionShape& s) {
  return list.add("sequences", s.sequences, std::int64_t{0})
      .add("heads", s.heads, 0)
      .add("kv_heads", s.kv_heads, 0)
      .add("head_dim", s.head_dim, 0);
}

std::string peers(const std::vector<int>& ranks) { return fmt::format("{}", fmt::join(ranks, ",")); }

struct Attributes {
  AttributeList list;

  void operator()(const Gemm& op) {
    list.add("transpose_a", +op.transpose_a, 0).add("transpose_b", +op.transpose_b, 0);
    list.add("fast_accumulation", +op.fast_accumulation, 0);
  }
  void operator()(const RmsNorm& op) { list.add("epsilon", op.epsilon, 0.f); }
  void operator()(const RopeTable& op) {
    list.add("theta", op.theta, 0.)
        .add("factor", op.scaling.factor, 1.f)
        .add("low", op.scaling.low_freq_factor, 1.f);
    list.add("high", op.scaling.high_freq_factor, 4.f)
        .add("original", op.scaling.original_length, std::int64_t{8192});
  }
  void operator()(const Rope& op) {
    list.add("head_dim", op.head_dim, 0)
        .add("rotated_heads", op.rotated_heads, 0)
        .add("inverse", +op.inverse, 0);
  }
  void operator()(const Attention& op) { add_shape(list, op.shape); }
  void operator()(const AttentionGrad& op) { add_shape(list, op.shape); }
  void operator()(const MergeLse& op) { list.add("head_dim", op.head_dim, 0); }
  void operator()(const AttentionDelta& op) { list.add("head_dim", op.head_dim, 0); }
  void operator()(const CacheWrite& op) { list.add("sequences", op.sequences, std::int64_t{0}); }
  void operator()(const Embedding& op) { list.add("first_row", op.first_row, std::int64_t{0}); }
  void operator()(const EmbeddingGrad& op) { list.add("first_row", op.first_row, std::int64_t{0}); }
  void operator()(const LogitStats& op) { list.add("first_column", op.first_column, std::int64_t{0}); }
  void operator()(const CrossEntropyGrad& op) { list.add("first_column", op.first_column, std::int64_t{0}); }
  void operator()(const ClipScale& op) { list.add("max_norm", op.max_norm, -1.f); }
  void operator()(const AdamW& op) {
    list.add("beta1", op.beta1, 0.f)
        .add("beta2", op.beta2, 0.f)
        .add("eps", op.epsilon, 0.f)
        .add("decay", op.weight_decay, -1.f);
  }
  void operator()(const Fill& op) { list.add("value", op.value, -0.125f); }
  void operator()(const Iota& op) { list.add("period", op.period, std::int64_t{0}); }
  void operator()(const InitNormal& op) {
    list.add("mean", op.mean, 0.f).add("std", op.std, 0.f).add("cutoff", op.cutoff, 0.f);
    list.add("first_row", op.first_row, std::int64_t{0}).add("first_col", op.first_col, std::int64_t{0});
  }
  void operator()(const AllGather& op) { axis(op.axis); }
  void operator()(const ReduceScatter& op) { axis(op.axis); }
  void operator()(const AllReduce& op) {
    axis(op.axis);
    list.add("reduction", std::string(to_string(op.reduction)), std::string());
  }
  void operator()(const Exchange& op) {
    axis(op.axis);
    list.add("to", peers(op.send_peers), std::string()).add("from", peers(op.recv_peers), std::string());
  }
  template <class Plain>
  void operator()(const Plain&) {}

  void axis(Axis a) { list.add("axis", std::string(to_string(a)), std::string()); }
};

template <class T>
concept Collective = requires(const T& op) {
  op.axis;
};

template <class T>
concept Sharing = requires {
  T::kShare;
};

}  // namespace

std::string_view name_of(const Op& op) {
  return std::visit([](const auto& o) { return std::remove_cvref_t<decltype(o)>::kName; }, op);
}

void for_each_operand(Op& op, FunctionRef<void(Operand&, Access, std::string_view)> f) {
  std::visit([&](auto& o) { walk(o, f); }, op);
}

void for_each_operand(const Op& op, FunctionRef<void(const Operand&, Access, std::string_view)> f) {
  std::visit([&](const auto& o) { walk(o, f); }, op);
}

void for_each_share(const Op& op, FunctionRef<void(const Operand&, const Operand&)> f) {
  std::visit(
      [&](const auto& o) {
        using T = std::remove_cvref_t<decltype(o)>;
        if constexpr (Sharing<T>) {
          std::apply(
              [&](const auto&... fields) {
                const std::array<const Operand*, sizeof...(fields)> list{&fields...};
                for (const auto& [written, read] : T::kShare)
                  if (*list[written] && *list[read]) f(*list[written], *list[read]);
              },
              o.operands());
        }
      },
      op);
}

std::string attributes(const Op& op) {
  Attributes visitor;
  std::visit([&](const auto& o) { visitor(o); }, op);
  return visitor.list.take();
}

bool is_collective(const Op& op) {
  return std::visit([](const auto& o) { return Collective<std::remove_cvref_t<decltype(o)>>; }, op);
}

Axis axis_of(const Op& collective) {
  return std::visit(
      [](const auto& o) -> Axis {
        if constexpr (Collective<std::remove_cvref_t<decltype(o)>>) return o.axis;
        throw std::logic_error("axis_of: not a collective");
      },
      collective);
}

}  // namespace titan
