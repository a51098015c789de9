// Llama 3.1 model shapes: TorchTitan's presets and custom ones, and what follows from a shape (parameters,
// initial values).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/op/ops.h"

namespace titan {

struct Recipe;

struct ModelConfig {
  std::string flavor;
  std::int64_t dim = 0, n_layers = 0, n_heads = 0, n_kv_heads = 0, head_dim = 0, ffn_dim = 0, vocab_size = 0;
  float norm_eps = 1e-5f;
  double rope_theta = 500000;
  RopeScaling rope_scaling = {};
  bool tie_embeddings = false;

  std::int64_t q_dim() const { return n_heads * head_dim; }
  std::int64_t kv_dim() const { return n_kv_heads * head_dim; }
  std::int64_t qkv_dim() const { return q_dim() + 2 * kv_dim(); }
  bool operator==(const ModelConfig&) const = default;
};

/// The preset of a flavor: debugmodel, 1B, 3B, 8B, 70B, 405B (`_flex_attn` variants too). Throws UsageError
/// with the list.
ModelConfig preset(const std::string& flavor);
std::vector<std::string> preset_names();

/// TorchTitan's hidden size of the feed-forward: multiple_of · ceil(int(multiplier · int(8·dim/3)) /
/// multiple_of).
std::int64_t feed_forward_dim(std::int64_t dim, double multiplier, std::int64_t multiple_of);

/// The recipe's flavor with its model.* overrides. Throws UsageError naming keys and values when the shape is
/// impossible.
ModelConfig model_config(const Recipe& recipe);

/// The inverse: model.* keys of a custom flavor that give `config`.
void set_model(Recipe& recipe, const ModelConfig& config);

/// The double with the fewest digits that rounds to `value`: 1e-05, not 9.999999747378752e-06.
double shortest_double(float value);

/// Initial values of a parameter: N(mean, std), cut at `cutoff` standard deviations when positive; or all
/// ones.
struct Init {
  float std = 0, cutoff = 0;
  bool ones = false;
};

/// One trainable tensor, named as Hugging Face names it.
struct ParameterSpec {
  std::string name;
  std::int64_t rows = 0, cols = 0;  ///< a norm weight is [1, D] here and one-dimensional in files
  int layer = -1;                   ///< −1: outside the blocks
  Init init;
  bool one_dimensional = false;

  /// As files store it.
  std::vector<std::int64_t> file_shape() const {
    return one_dimensional ? std::vector{cols} : std::vector{rows, cols};
  }
};

/// All parameters in model order. Tied embeddings have no lm_head.
/// Initial values: TorchTitan's (embedding N(0,1), or the head's when tied; q, k, v, gate 0.02; o, up, down
/// 0.02/sqrt(2(layer+1)); head dim^-0.5 cut at 3 standard deviations; norms 1). Its cut at ±2 absolute is
/// beyond 40 standard deviations: no cut here.
std::vector<ParameterSpec> parameters(const ModelConfig& config);

/// Refuses one forward and backward over `sequences` of `seq_len` tokens whose positions or bytes would not
/// fit in titan's integers (32 and 64 bits). Throws UserError.
void check_pass(const ModelConfig& config, std::int64_t sequences, std::int64_t seq_len);

std::int64_t parameter_count(const ModelConfig& config);
/// Parameters of the input embedding (those that the FLOPs formula leaves out; 0 when tied).
std::int64_t embedding_parameter_count(const ModelConfig& config);

/// "custom: dim 256, 6 layers, ..., 6,163,712 parameters"
std::string describe(const ModelConfig& config);

/// The shape as Hugging Face's config.json spells it.
std::string to_json(const ModelConfig& config);

}  // namespace titan
