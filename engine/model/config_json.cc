#include <nlohmann/json.hpp>

#include "engine/model/config.h"

namespace titan {

std::string to_json(const ModelConfig& c) {
  nlohmann::ordered_json j;
  j["architectures"] = {"LlamaForCausalLM"};
  j["model_type"] = "llama";
  j["hidden_act"] = "silu";
  j["hidden_size"] = c.dim;
  j["intermediate_size"] = c.ffn_dim;
  j["num_hidden_layers"] = c.n_layers;
  j["num_attention_heads"] = c.n_heads;
  j["num_key_value_heads"] = c.n_kv_heads;
  j["head_dim"] = c.head_dim;
  j["vocab_size"] = c.vocab_size;
  j["rms_norm_eps"] = shortest_double(c.norm_eps);
  j["rope_theta"] = c.rope_theta;
  if (c.rope_scaling != RopeScaling{})
    j["rope_scaling"] = {{"rope_type", "llama3"},
                         {"factor", shortest_double(c.rope_scaling.factor)},
                         {"low_freq_factor", shortest_double(c.rope_scaling.low_freq_factor)},
                         {"high_freq_factor", shortest_double(c.rope_scaling.high_freq_factor)},
                         {"original_max_position_embeddings", c.rope_scaling.original_length}};
  j["tie_word_embeddings"] = c.tie_embeddings;
  j["attention_bias"] = false;
  j["mlp_bias"] = false;
  return j.dump(2);
}

}  // namespace titan
