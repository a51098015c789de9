// Which linear layers Float8 training multiplies in 8 bits: a pure function of the program and the recipe, so
// that it can be shown before anything runs. quantize() follows it.
#pragma once

#include <string>
#include <vector>

#include "engine/program/program.h"

namespace titan {

/// Scales as torchao's recipes of these names have them.
enum class Float8Scaling {
  tensorwise,          ///< one scale a matrix; inputs and weights in e4m3, gradients of outputs in e5m2
  rowwise,             ///< one a row of each factor, powers of two; all e4m3
  rowwise_with_gw_hp,  ///< the same, but weight gradients are products of bf16
};
const char* to_string(Float8Scaling scaling);

struct Float8Recipe {
  Float8Scaling scaling = Float8Scaling::tensorwise;
  /// Layers whose name contains one of these stay as they are. A layer has two names: Hugging Face's
  /// ("model.layers.0.self_attn.q_proj", "lm_head") and TorchTitan's ("layers.0.attention.wq", "output").
  std::vector<std::string> filters = {};
  /// 8-bit weights are made in each segment that uses them, where bf16 ones are too; else once a step.
  bool weights_per_use = false;
};

/// "tensorwise", "rowwise" or "rowwise_with_gw_hp". Throws UsageError for anything else.
Float8Scaling parse_float8_scaling(const std::string& name);

/// A linear layer, or several whose weights lie side by side and that are treated alike: one product.
struct Float8Linear {
  std::vector<std::string> names;  ///< "model.layers.3.self_attn.q_proj", …
  int layer = -1;
  ValueId weight = kNoValue;  ///< the base that all parts of a fused weight share
  std::int64_t first_row = 0, rows = 0, cols = 0;
  std::string excluded = {};  ///< why it is not quantized; empty: it is

  bool quantized() const { return excluded.empty(); }
};

/// All linear layers of a program as the builder wrote it, in model order.
std::vector<Float8Linear> plan_float8(const Program& program, const Float8Recipe& recipe);

/// A line for each kind of layer and treatment: "layers 0-5 self_attn.q|k|v_proj: float8".
std::vector<std::string> describe(const std::vector<Float8Linear>& linears);

}  // namespace titan
