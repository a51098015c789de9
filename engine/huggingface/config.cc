#include "engine/huggingface/config.h"

#include <cmath>

#include "engine/io/json.h"
#include "engine/recipe/recipe.h"
#include "kernels/base/error.h"

namespace titan {
namespace {

using Json = nlohmann::json;
using Ordered = nlohmann::ordered_json;

constexpr std::int64_t kDefaultPositions = 2048;  // of transformers' LlamaConfig

/// The members of a JSON object that should have certain types. An absent one and null are the same.
class Fields {
 public:
  Fields(const Json& json, std::string place) : json_(json), place_(std::move(place)) {}

  bool has(const char* key) const { return json_.contains(key) && !json_[key].is_null(); }
  const Json& at(const char* key) const { return json_[key]; }

  std::int64_t whole(const char* key, std::optional<std::int64_t> otherwise = {}) const {
    if (!present(key, otherwise.has_value())) return *otherwise;
    const Json& value = json_[key];
    const bool whole =
        value.is_number_integer() && (!value.is_number_unsigned() || value.get<std::uint64_t>() <= INT64_MAX);
    if (!whole) fail(key, "expected a whole number");
    return value.get<std::int64_t>();
  }
  double number(const char* key, std::optional<double> otherwise = {}) const {
    if (!present(key, otherwise.has_value())) return *otherwise;
    if (!json_[key].is_number()) fail(key, "expected a number");
    return json_[key].get<double>();
  }
  bool flag(const char* key, bool otherwise) const {
    if (!has(key)) return otherwise;
    if (!json_[key].is_boolean()) fail(key, "expected true or false");
    return json_[key].get<bool>();
  }
  std::string text(const char* key, const std::string& otherwise) const {
    if (!has(key)) return otherwise;
    if (!json_[key].is_string()) fail(key, "expected a text");
    return json_[key].get<std::string>();
  }
  Fields object(const char* key) const {
    if (!json_[key].is_object()) fail(key, "expected an object");
    return {json_[key], fmt::format("{}: {}", place_, key)};
  }
  [[noreturn]] void fail(const char* key, const std::string& problem) const {
    std::string value = has(key) ? json_[key].dump(-1, ' ', true, Json::error_handler_t::replace) : "absent";
    if (value.size() > 100) value = value.substr(0, 100) + "...";
    throw UserError(fmt::format("{}: {} is {}: {}", place_, key, value, problem));
  }

 private:
  bool present(const char* key, bool optional) const {
    if (!has(key) && !optional) throw UserError(fmt::format("{}: {} is missing", place_, key));
    return has(key);
  }

  const Json& json_;
  std::string place_;
};

Json parse_object(std::string_view json, const std::string& source) {
  try {
    Json parsed = parse_json(json);
    if (!parsed.is_object()) throw JsonError("not a JSON object");
    return parsed;
  } catch (const JsonError& error) {
    throw UserError(fmt::format("{}: {}", source, error.what()));
  }
}

/// Refuses what a recipe could not say, in the recipe's words.
void check(const ModelConfig& model, const std::string& source) {
  Recipe recipe;
  set_model(recipe, model);
  try {
    validate(recipe);
    TITAN_CHECK(model_config(recipe) == model, "{}: the recipe's model is another", source);
  } catch (const UsageError& error) {
    throw UserError(fmt::format("{}: titan cannot be this model: {}", source, error.what()));
  }
}

void check_architecture(const Fields& fields) {
  if (fields.has("architectures")) {
    if (fields.at("architectures") != Json::array({"LlamaForCausalLM"}))
      fields.fail("architectures", "titan reads LlamaForCausalLM");
  } else if (fields.text("model_type", "none") != "llama") {
    fields.fail("model_type", "titan reads llama");
  }
  if (fields.has("quantization_config"))
    fields.fail("quantization_config", "titan reads unquantized weights: float32, bfloat16 or float16");
  if (fields.text("hidden_act", "silu") != "silu") fields.fail("hidden_act", "titan has silu");
  for (const char* bias : {"attention_bias", "mlp_bias"})
    if (fields.flag(bias, false)) fields.fail(bias, "titan's layers have no biases");
}

/// `rope` has rope_type (older: type) and its numbers.
RopeScaling rope_scaling(const Fields& rope) {
  const char* key = rope.has("rope_type") ? "rope_type" : "type";
  const std::string type = rope.text(key, "default");
  if (type == "default") return {};
  if (type != "llama3") rope.fail(key, "titan has the scalings llama3 and default");
  return {.factor = static_cast<float>(rope.number("factor")),
          .low_freq_factor = static_cast<float>(rope.number("low_freq_factor")),
          .high_freq_factor = static_cast<float>(rope.number("high_freq_factor")),
          .original_length = rope.whole("original_max_position_embeddings")};
}

std::int64_t divide(std::int64_t dim, std::int64_t heads) {
  return heads > 0 && dim % heads == 0 ? dim / heads : 0;
}

}  // namespace

ForeignConfig parse_config_json(std::string_view json, const std::string& source) {
  const Json parsed = parse_object(json, source);
  const Fields fields(parsed, source);
  check_architecture(fields);
  ForeignConfig config;
  ModelConfig& m = config.model;
  m.flavor = "custom";
  m.dim = fields.whole("hidden_size");
  m.n_layers = fields.whole("num_hidden_layers");
  m.n_heads = fields.whole("num_attention_heads");
  m.n_kv_heads = fields.whole("num_key_value_heads", m.n_heads);
  m.head_dim = fields.whole("head_dim", divide(m.dim, m.n_heads));
  m.ffn_dim = fields.whole("intermediate_size");
  m.vocab_size = fields.whole("vocab_size");
  m.norm_eps = static_cast<float>(fields.number("rms_norm_eps", 1e-6));
  m.tie_embeddings = fields.flag("tie_word_embeddings", false);
  m.rope_theta = fields.number("rope_theta", 10000);
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    if (!fields.has(key)) continue;
    const Fields rope = fields.object(key);
    m.rope_scaling = rope_scaling(rope);
    m.rope_theta = rope.number("rope_theta", m.rope_theta);
    if (rope.number("partial_rotary_factor", 1) != 1) rope.fail("partial_rotary_factor", "titan has 1");
  }
  config.max_positions = fields.whole("max_position_embeddings", kDefaultPositions);
  if (config.max_positions < 1) fields.fail("max_position_embeddings", "expected at least 1");
  check(m, source);
  return config;
}

ForeignConfig parse_params_json(std::string_view json, const std::string& source,
                                std::optional<std::int64_t> vocab_size) {
  const Json parsed = parse_object(json, source);
  const Fields fields(parsed, source);
  ForeignConfig config;
  ModelConfig& m = config.model;
  m = preset("8B");  // for the scaling, which the file only switches on
  const RopeScaling scaling = m.rope_scaling;
  m.flavor = "custom";
  m.tie_embeddings = false;
  m.dim = fields.whole("dim");
  m.n_layers = fields.whole("n_layers");
  m.n_heads = fields.whole("n_heads");
  m.n_kv_heads = fields.whole("n_kv_heads", m.n_heads);
  m.head_dim = fields.whole("head_dim", divide(m.dim, m.n_heads));
  const double multiplier = fields.number("ffn_dim_multiplier", 1);
  const std::int64_t multiple = fields.whole("multiple_of", 256);
  constexpr std::int64_t kMost = std::int64_t{1} << 20;
  if (multiple < 1 || multiple > kMost) fields.fail("multiple_of", "expected 1 to 1048576");
  if (!(multiplier > 0 && multiplier <= 1000)) fields.fail("ffn_dim_multiplier", "expected up to 1000");
  if (m.dim < 1 || m.dim > kMost) fields.fail("dim", "expected 1 to 1048576");
  m.ffn_dim = feed_forward_dim(m.dim, multiplier, multiple);
  m.vocab_size = fields.whole("vocab_size", -1);
  if (m.vocab_size == -1 && vocab_size) m.vocab_size = *vocab_size;
  m.norm_eps = static_cast<float>(fields.number("norm_eps", 1e-5));
  m.rope_theta = fields.number("rope_theta", 10000);
  const bool scaled = fields.flag("use_scaled_rope", false);
  m.rope_scaling = scaled ? scaling : RopeScaling{};
  config.max_positions = fields.whole("max_seq_len", scaled ? 131072 : kDefaultPositions);
  if (config.max_positions < 1) fields.fail("max_seq_len", "expected at least 1");
  check(m, source);
  return config;
}

std::map<std::string, std::string> parse_weight_index(std::string_view json, const std::string& source) {
  const Json parsed = parse_object(json, source);
  const Fields fields(parsed, source);
  if (!fields.has("weight_map") || !fields.at("weight_map").is_object())
    throw UserError(
        fmt::format("{}: weight_map is missing, which says in which file each tensor is", source));
  std::map<std::string, std::string> files;
  const Json& map = fields.at("weight_map");
  const Fields entries(map, source + ": weight_map");
  for (const auto& [name, file] : map.items()) {
    const std::string text = file.is_string() ? file.get<std::string>() : "";
    if (text.empty() || text.front() == '.' || text.find('/') != std::string::npos ||
        text.find('\0') != std::string::npos)
      throw UserError(fmt::format("{}: weight_map: {} is not in a file of the same folder", source,
                                  Json(name).dump(-1, ' ', true, Json::error_handler_t::replace)));
    files[name] = text;
  }
  return files;
}

std::string config_json(const ModelConfig& model, const ExportedConfig& exported) {
  Ordered j = Ordered::parse(to_json(model));
  j["max_position_embeddings"] = exported.max_positions;
  j["bos_token_id"] = exported.bos ? Ordered(*exported.bos) : Ordered();
  j["eos_token_id"] = exported.eos ? Ordered(*exported.eos) : Ordered();
  j["initializer_range"] = 0.02;
  j["use_cache"] = true;
  j["torch_dtype"] = exported.dtype;
  return j.dump(2) + "\n";
}

std::string generation_config_json(const ExportedConfig& exported) {
  Ordered j = Ordered::object();
  if (exported.bos) j["bos_token_id"] = *exported.bos;
  if (exported.eos) j["eos_token_id"] = *exported.eos;
  return j.dump(2) + "\n";
}

std::string tokenizer_config_json(const std::optional<std::string>& bos,
                                  const std::optional<std::string>& eos) {
  Ordered j = {{"tokenizer_class", "PreTrainedTokenizerFast"}, {"clean_up_tokenization_spaces", false}};
  j["bos_token"] = bos ? Ordered(*bos) : Ordered();
  j["eos_token"] = eos ? Ordered(*eos) : Ordered();
  return j.dump(2, ' ', false, Ordered::error_handler_t::replace) + "\n";
}

std::string weight_index_json(const std::map<std::string, std::string>& files, std::int64_t total_bytes) {
  return Json{{"metadata", {{"total_size", total_bytes}}}, {"weight_map", files}}.dump(2) + "\n";
}

std::optional<std::int64_t> max_positions_of(const std::string& config_json) {
  const Json json = Json::parse(config_json, nullptr, false);
  if (!json.is_object() || !json.contains("max_position_embeddings")) return std::nullopt;
  const Json& value = json["max_position_embeddings"];
  return value.is_number_integer() ? std::optional(value.get<std::int64_t>()) : std::nullopt;
}

}  // namespace titan
