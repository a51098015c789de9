#include "engine/model/config.h"

#include <array>
#include <cmath>
#include <limits>

#include "engine/recipe/recipe.h"
#include "kernels/base/error.h"

namespace titan {
namespace {

constexpr RopeScaling kLlama31{
    .factor = 8, .low_freq_factor = 1, .high_freq_factor = 4, .original_length = 8192};

struct Preset {
  const char* flavor;
  std::int64_t dim, layers, heads, kv_heads;
  double ffn_multiplier;
  std::int64_t multiple_of, vocab_size;
  bool tied;
};

constexpr std::array<Preset, 6> kPresets{{
    {"debugmodel", 256, 6, 16, 16, 1.0, 256, 2048, false},
    {"1B", 2048, 16, 32, 8, 1.5, 1024, 128256, true},
    {"3B", 3072, 28, 24, 8, 1.0, 1024, 128256, true},
    {"8B", 4096, 32, 32, 8, 1.3, 1024, 128256, false},
    {"70B", 8192, 80, 64, 8, 1.3, 4096, 128256, false},
    {"405B", 16384, 126, 128, 8, 1.2, 4096, 128256, false},
}};

/// 1234567 as "1,234,567".
std::string grouped(std::int64_t n) {
  const std::string digits = fmt::format("{}", n);
  std::string text;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) text.push_back(',');
    text.push_back(digits[i]);
  }
  return text;
}

void check_shape(const ModelConfig& c) {
  const auto require = [](bool ok, const std::string& message) {
    if (!ok) throw UsageError("model: " + message);
  };
  const auto positive = [&](std::int64_t value, const char* key) {
    require(value > 0, fmt::format("model.{} is {}; flavor 'custom' needs it set to at least 1", key, value));
  };
  positive(c.dim, "dim");
  positive(c.n_layers, "n_layers");
  positive(c.n_heads, "n_heads");
  positive(c.n_kv_heads, "n_kv_heads");
  positive(c.vocab_size, "vocab_size");
  positive(c.ffn_dim, "ffn_dim");
  require(c.head_dim > 0,
          fmt::format("model.dim {} is not divisible by model.n_heads {}; set model.head_dim or change one",
                      c.dim, c.n_heads));
  require(c.head_dim % 2 == 0,
          fmt::format("model.head_dim is {}; rotary embedding needs an even number", c.head_dim));
  require(c.n_heads % c.n_kv_heads == 0,
          fmt::format("model.n_heads {} is not a multiple of model.n_kv_heads {}", c.n_heads, c.n_kv_heads));
  require(c.rope_scaling.low_freq_factor < c.rope_scaling.high_freq_factor,
          fmt::format("model.rope_low_freq_factor {} is not below model.rope_high_freq_factor {}",
                      c.rope_scaling.low_freq_factor, c.rope_scaling.high_freq_factor));
}

}  // namespace

std::int64_t feed_forward_dim(std::int64_t dim, double multiplier, std::int64_t multiple_of) {
  const auto wanted = static_cast<std::int64_t>(
      multiplier * static_cast<double>(8 * dim / 3));  // NOLINT(bugprone-integer-division): int() twice
  return (wanted + multiple_of - 1) / multiple_of * multiple_of;
}

std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  for (const Preset& p : kPresets) names.emplace_back(p.flavor);
  return names;
}

ModelConfig preset(const std::string& flavor) {
  constexpr std::string_view kFlex = "_flex_attn";
  const std::string wanted =
      flavor.ends_with(kFlex) ? flavor.substr(0, flavor.size() - kFlex.size()) : flavor;
  for (const Preset& p : kPresets) {
    if (wanted != p.flavor) continue;
    return {.flavor = flavor,
            .dim = p.dim,
            .n_layers = p.layers,
            .n_heads = p.heads,
            .n_kv_heads = p.kv_heads,
            .head_dim = p.dim / p.heads,
            .ffn_dim = feed_forward_dim(p.dim, p.ffn_multiplier, p.multiple_of),
            .vocab_size = p.vocab_size,
            .rope_scaling = kLlama31,
            .tie_embeddings = p.tied};
  }
  throw UsageError(
      fmt::format("model.flavor is '{}'; use one of {} or custom", flavor, fmt::join(preset_names(), ", ")));
}

ModelConfig model_config(const Recipe& recipe) {
  const Recipe::Model& m = recipe.model;
  const bool custom = m.flavor == "custom";
  ModelConfig c = custom ? ModelConfig{.flavor = "custom", .rope_scaling = kLlama31} : preset(m.flavor);
  const std::int64_t old_dim = c.dim, old_heads = c.n_heads;
  c.dim = m.dim.value_or(c.dim);
  c.n_layers = m.n_layers.value_or(c.n_layers);
  c.n_heads = m.n_heads.value_or(c.n_heads);
  c.n_kv_heads = m.n_kv_heads.value_or(custom ? c.n_heads : c.n_kv_heads);
  const bool reshaped = c.dim != old_dim || c.n_heads != old_heads;
  if (reshaped && c.n_heads > 0) c.head_dim = c.dim % c.n_heads == 0 ? c.dim / c.n_heads : 0;
  c.head_dim = m.head_dim.value_or(c.head_dim);
  if (c.dim != old_dim) c.ffn_dim = feed_forward_dim(c.dim, 1.0, c.dim >= 2048 ? 1024 : 64);
  c.ffn_dim = m.ffn_dim.value_or(c.ffn_dim);
  c.vocab_size = m.vocab_size.value_or(c.vocab_size);
  c.rope_theta = m.rope_theta.value_or(c.rope_theta);
  if (m.rope_scaling) c.rope_scaling = *m.rope_scaling == "none" ? RopeScaling{} : kLlama31;
  if (c.rope_scaling != RopeScaling{}) {
    RopeScaling& s = c.rope_scaling;
    s.factor = static_cast<float>(m.rope_scaling_factor.value_or(s.factor));
    s.low_freq_factor = static_cast<float>(m.rope_low_freq_factor.value_or(s.low_freq_factor));
    s.high_freq_factor = static_cast<float>(m.rope_high_freq_factor.value_or(s.high_freq_factor));
    s.original_length = m.rope_original_length.value_or(s.original_length);
  }
  c.norm_eps = static_cast<float>(m.norm_eps.value_or(c.norm_eps));
  c.tie_embeddings = m.tie_embeddings.value_or(c.tie_embeddings);
  check_shape(c);
  return c;
}

double shortest_double(float value) { return std::strtod(fmt::format("{}", value).c_str(), nullptr); }

void set_model(Recipe& recipe, const ModelConfig& c) {
  Recipe::Model& m = recipe.model;
  m.flavor = "custom";
  m.dim = c.dim;
  m.n_layers = c.n_layers;
  m.n_heads = c.n_heads;
  m.n_kv_heads = c.n_kv_heads;
  m.head_dim = c.head_dim;
  m.ffn_dim = c.ffn_dim;
  m.vocab_size = c.vocab_size;
  m.rope_theta = c.rope_theta;
  m.norm_eps = shortest_double(c.norm_eps);
  m.tie_embeddings = c.tie_embeddings;
  const RopeScaling& s = c.rope_scaling;
  const bool scaled = s != RopeScaling{};
  m.rope_scaling = scaled ? "llama3" : "none";
  if (!scaled) return;
  m.rope_scaling_factor = shortest_double(s.factor);
  m.rope_low_freq_factor = shortest_double(s.low_freq_factor);
  m.rope_high_freq_factor = shortest_double(s.high_freq_factor);
  m.rope_original_length = s.original_length;
}

std::vector<ParameterSpec> parameters(const ModelConfig& c) {
  std::vector<ParameterSpec> list;
  const auto add = [&](std::string name, std::int64_t rows, std::int64_t cols, int layer, Init init) {
    list.push_back({std::move(name), rows, cols, layer, init, init.ones});
  };
  const Init ones{.ones = true};
  const Init head{.std = 1 / std::sqrt(static_cast<float>(c.dim)), .cutoff = 3};
  add("model.embed_tokens.weight", c.vocab_size, c.dim, -1, c.tie_embeddings ? head : Init{.std = 1});
  for (int i = 0; i < static_cast<int>(c.n_layers); ++i) {
    const std::string layer = fmt::format("model.layers.{}.", i);
    const Init plain{.std = 0.02f};
    const Init depth{.std = 0.02f / std::sqrt(2.0f * static_cast<float>(i + 1))};
    add(layer + "input_layernorm.weight", 1, c.dim, i, ones);
    add(layer + "self_attn.q_proj.weight", c.q_dim(), c.dim, i, plain);
    add(layer + "self_attn.k_proj.weight", c.kv_dim(), c.dim, i, plain);
    add(layer + "self_attn.v_proj.weight", c.kv_dim(), c.dim, i, plain);
    add(layer + "self_attn.o_proj.weight", c.dim, c.q_dim(), i, depth);
    add(layer + "post_attention_layernorm.weight", 1, c.dim, i, ones);
    add(layer + "mlp.gate_proj.weight", c.ffn_dim, c.dim, i, plain);
    add(layer + "mlp.up_proj.weight", c.ffn_dim, c.dim, i, depth);
    add(layer + "mlp.down_proj.weight", c.dim, c.ffn_dim, i, depth);
  }
  add("model.norm.weight", 1, c.dim, -1, ones);
  if (!c.tie_embeddings) add("lm_head.weight", c.vocab_size, c.dim, -1, head);
  return list;
}

void check_pass(const ModelConfig& c, std::int64_t sequences, std::int64_t seq_len) {
  constexpr double kMostElements = 0x1p56;  // leaves room for element sizes and temporaries
  const auto tokens = static_cast<double>(sequences) * static_cast<double>(seq_len);
  const auto width = static_cast<double>(c.dim + c.q_dim() + 2 * c.kv_dim() + 3 * c.ffn_dim + c.vocab_size);
  if (tokens <= std::numeric_limits<std::int32_t>::max() &&
      tokens * width * static_cast<double>(c.n_layers) <= kMostElements)
    return;
  throw UserError(fmt::format(
      "{} sequences of {} tokens are too many for one pass of this model; lower the batch size or "
      "the sequence length",
      sequences, seq_len));
}

std::int64_t parameter_count(const ModelConfig& config) {
  std::int64_t count = 0;
  for (const ParameterSpec& p : parameters(config)) count += p.rows * p.cols;
  return count;
}

std::int64_t embedding_parameter_count(const ModelConfig& config) {
  return config.tie_embeddings ? 0 : config.vocab_size * config.dim;
}

std::string describe(const ModelConfig& c) {
  return fmt::format(
      "llama3 {}: dim {}, {} layers, {}/{} heads of {}, feed-forward {}, vocabulary {}{}, {} parameters",
      c.flavor, c.dim, c.n_layers, c.n_heads, c.n_kv_heads, c.head_dim, c.ffn_dim, c.vocab_size,
      c.tie_embeddings ? ", tied embeddings" : "", grouped(parameter_count(c)));
}

}  // namespace titan
