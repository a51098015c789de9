// A model's shape as others write it down: config.json of Hugging Face, params.json of Meta.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "engine/model/config.h"

namespace titan {

struct ForeignConfig {
  ModelConfig model;  ///< flavor "custom"
  std::int64_t max_positions = 0;
};

/// config.json of a LlamaForCausalLM, as transformers 4 and 5 write it. Throws UserError, with `source` (the
/// file's name) and the field, for another architecture, quantized weights, biases, a rope_scaling that is
/// neither llama3 nor default, and sizes that cannot be.
ForeignConfig parse_config_json(std::string_view json, const std::string& source);

/// Meta's params.json; `vocab_size` stands in where the file says -1.
ForeignConfig parse_params_json(std::string_view json, const std::string& source,
                                std::optional<std::int64_t> vocab_size);

/// Tensor name -> file name, of a model.safetensors.index.json. Throws UserError; file names are of the same
/// folder.
std::map<std::string, std::string> parse_weight_index(std::string_view json, const std::string& source);

/// What config.json says beside the shape.
struct ExportedConfig {
  std::string_view dtype;  ///< float32, bfloat16, float16
  std::int64_t max_positions = 0;
  std::optional<std::int32_t> bos, eos;
};
std::string config_json(const ModelConfig& model, const ExportedConfig& exported);
std::string generation_config_json(const ExportedConfig& exported);
/// For a tokenizer without a tokenizer_config.json. `bos` and `eos` are the tokens' texts.
std::string tokenizer_config_json(const std::optional<std::string>& bos,
                                  const std::optional<std::string>& eos);
std::string weight_index_json(const std::map<std::string, std::string>& files, std::int64_t total_bytes);

/// "max_position_embeddings" of a config.json, if it has one.
std::optional<std::int64_t> max_positions_of(const std::string& config_json);

}  // namespace titan
