#include "engine/model/weights.h"

#include <fmt/format.h>

#include <span>

namespace titan {
namespace {

class Declarer {
 public:
  Declarer(ProgramBuilder& builder, DType compute, bool train)
      : b_(builder), compute_(compute), train_(train) {}

  /// `parts` lie one after the other in rows. A single part is the unit itself.
  Weight unit(const std::string& name, std::span<const ParameterSpec> parts) {
    std::int64_t rows = 0;
    for (const ParameterSpec& p : parts) rows += p.rows;
    const std::string& unit_name = parts.size() == 1 ? parts.front().name : name;
    Weight w{b_.value(unit_name, compute_, rows, parts.front().cols,
                      {.role = Role::weight, .lifetime = Lifetime::step})};
    if (train_)
      w.gradient = b_.value("d." + unit_name, DType::f32, rows, parts.front().cols,
                            {.role = Role::gradient, .lifetime = Lifetime::step});
    std::int64_t row = 0;
    for (const ParameterSpec& p : parts) {
      add_parameter(p, w, row, parts.size() == 1);
      row += p.rows;
    }
    return w;
  }

 private:
  void add_parameter(const ParameterSpec& p, const Weight& unit, std::int64_t row, bool whole) {
    const auto part = [&](ValueId of, const std::string& name) {
      if (of == kNoValue || whole) return of;
      return b_.view(name, of, row, p.rows, 0, p.cols);
    };
    b_.program().parameters.push_back({.name = p.name,
                                       .global_rows = p.rows,
                                       .global_cols = p.cols,
                                       .layer = p.layer,
                                       .one_dimensional = p.one_dimensional,
                                       .weight = part(unit.weight, p.name),
                                       .gradient = part(unit.gradient, "d." + p.name)});
  }

  ProgramBuilder& b_;
  DType compute_;
  bool train_;
};

}  // namespace

Weights declare_weights(ProgramBuilder& builder, const ModelConfig& config, DType compute, bool train) {
  Declarer declare(builder, compute, train);
  const std::vector<ParameterSpec> all = parameters(config);
  std::span<const ParameterSpec> rest = all;
  const auto take = [&](const std::string& name, std::size_t count) {
    const Weight w = declare.unit(name, rest.first(count));
    rest = rest.subspan(count);
    return w;
  };
  Weights w;
  w.embedding = take("", 1);
  for (std::int64_t i = 0; i < config.n_layers; ++i) {
    const std::string layer = fmt::format("model.layers.{}.", i);
    BlockWeights block;
    block.input_norm = take("", 1);
    block.qkv = take(layer + "self_attn.qkv_proj.weight", 3);
    block.o = take("", 1);
    block.post_norm = take("", 1);
    block.gate_up = take(layer + "mlp.gate_up_proj.weight", 2);
    block.down = take("", 1);
    w.blocks.push_back(block);
  }
  w.norm = take("", 1);
  w.head = config.tie_embeddings ? w.embedding : take("", 1);
  return w;
}

}  // namespace titan
