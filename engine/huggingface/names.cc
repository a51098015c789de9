#include "engine/huggingface/names.h"

#include <array>
#include <utility>

namespace titan {
namespace {

constexpr std::string_view kLayers = "model.layers.";

using Row = std::pair<std::string_view, std::string_view>;
constexpr std::array<Row, 3> kOutside{{{"model.embed_tokens.weight", "tok_embeddings.weight"},
                                       {"model.norm.weight", "norm.weight"},
                                       {"lm_head.weight", "output.weight"}}};
constexpr std::array<Row, 9> kInLayer{{{"input_layernorm.weight", "attention_norm.weight"},
                                       {"self_attn.q_proj.weight", "attention.wq.weight"},
                                       {"self_attn.k_proj.weight", "attention.wk.weight"},
                                       {"self_attn.v_proj.weight", "attention.wv.weight"},
                                       {"self_attn.o_proj.weight", "attention.wo.weight"},
                                       {"post_attention_layernorm.weight", "ffn_norm.weight"},
                                       {"mlp.gate_proj.weight", "feed_forward.w1.weight"},
                                       {"mlp.up_proj.weight", "feed_forward.w3.weight"},
                                       {"mlp.down_proj.weight", "feed_forward.w2.weight"}}};

}  // namespace

std::string meta_name(const std::string& parameter) {
  for (const auto& [ours, theirs] : kOutside)
    if (parameter == ours) return std::string(theirs);
  if (!parameter.starts_with(kLayers)) return parameter;
  const std::size_t dot = parameter.find('.', kLayers.size());
  const std::string layer = parameter.substr(kLayers.size(), dot - kLayers.size());
  for (const auto& [ours, theirs] : kInLayer)
    if (dot != std::string::npos && std::string_view(parameter).substr(dot + 1) == ours)
      return "layers." + layer + "." + std::string(theirs);
  return parameter;
}

bool is_rotated(std::string_view parameter) {
  return parameter.ends_with("q_proj.weight") || parameter.ends_with("k_proj.weight");
}

std::int64_t meta_row(std::int64_t row, std::int64_t head_dim) {
  const std::int64_t first = row / head_dim * head_dim, in_head = row % head_dim, half = head_dim / 2;
  return first + (in_head < half ? 2 * in_head : 2 * (in_head - half) + 1);
}

bool is_derived(std::string_view tensor) {
  return tensor.ends_with("rotary_emb.inv_freq") || tensor == "rope.freqs" || tensor == "freqs_cis";
}

}  // namespace titan
