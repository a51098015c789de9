#include "engine/recipe/check.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <tuple>

#include "engine/recipe/keys.h"
#include "kernels/base/error.h"

namespace titan {
namespace {

bool is_positive_integer(const std::string& text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() && number >= 1;
}

// Each relation reads: when it is broken, this key is to blame, and this is what to change.
class Relations {
 public:
  explicit Relations(const Recipe& recipe) : r_(recipe) {
    model();
    sizes();
    training();
    profiling();
    checkpoint();
    activation_checkpoint();
    float8();
  }
  std::vector<Problem> take() { return std::move(problems_); }

 private:
  void blame(std::string_view key, std::string message) {
    problems_.push_back({key, fmt::format("{} = {}: {}", key, to_text(find_key(key)->get(r_)), message)});
  }

  void model() {
    const Recipe::Model& m = r_.model;
    if (m.flavor != "custom") return;
    if (!m.dim || !m.n_layers || !m.n_heads)
      blame("model.flavor", "a custom model needs model.dim, model.n_layers and model.n_heads");
  }

  /// Positions and ids are 32-bit integers, and bytes of a program are counted in 64 bits: what is larger
  /// than any model by orders of magnitude is a slip of the pen, and is refused where it was made.
  void sizes() {
    constexpr int64_t kWidth = int64_t{1} << 20, kLayers = 1'000, kThreads = 4096,
                      kCount = std::numeric_limits<int32_t>::max();
    const Recipe::Model& m = r_.model;
    for (const auto& [key, size, most] : {std::tuple{"model.dim", m.dim, kWidth},
                                          {"model.n_layers", m.n_layers, kLayers},
                                          {"model.n_heads", m.n_heads, kWidth},
                                          {"model.n_kv_heads", m.n_kv_heads, kWidth},
                                          {"model.head_dim", m.head_dim, kWidth},
                                          {"model.ffn_dim", m.ffn_dim, 4 * kWidth},
                                          {"model.vocab_size", m.vocab_size, kCount}})
      at_most(key, size.value_or(0), most);
    at_most("model.n_heads", m.n_heads.value_or(0),
            kWidth / std::clamp(m.head_dim.value_or(1), int64_t{1}, kWidth));
    at_most("training.local_batch_size", r_.training.local_batch_size, kCount);
    at_most("training.global_batch_size", r_.training.global_batch_size, kCount);
    at_most("training.seq_len", r_.training.seq_len, kCount);
    at_most("training.loss_chunk", r_.training.loss_chunk, kCount);
    at_most("validation.local_batch_size", r_.validation.local_batch_size, kCount);
    at_most("validation.seq_len", r_.validation.seq_len, kCount);
    at_most("debug.threads", r_.debug.threads, kThreads);
  }

  void at_most(std::string_view key, int64_t size, int64_t most) {
    if (size > most) blame(key, fmt::format("expected at most {}", most));
  }

  void training() {
    const Recipe::Training& t = r_.training;
    if (t.global_batch_size > 0 && t.local_batch_size > 0 && t.global_batch_size % t.local_batch_size != 0)
      blame("training.global_batch_size",
            fmt::format("expected a multiple of training.local_batch_size = {}", t.local_batch_size));
  }

  void profiling() {
    const Recipe::Profiling& p = r_.profiling;
    if (p.enable_profiling && p.profile_freq < p.profiler_warmup + p.profiler_active)
      blame("profiling.profile_freq",
            fmt::format("expected at least profiler_warmup + profiler_active = {} + {}", p.profiler_warmup,
                        p.profiler_active));
  }

  void checkpoint() {
    const Recipe::Checkpoint& c = r_.checkpoint;
    if (c.last_save_in_hf && !c.last_save_model_only)
      blame("checkpoint.last_save_in_hf",
            "a Hugging Face folder holds only weights: set checkpoint.last_save_model_only");
    if (c.initial_load_in_hf && !c.initial_load_model_only)
      blame("checkpoint.initial_load_in_hf",
            "a Hugging Face folder holds only weights: set checkpoint.initial_load_model_only");
  }

  void activation_checkpoint() {
    const std::string& option = r_.activation_checkpoint.selective_ac_option;
    if (option != "op" && !is_positive_integer(option))
      blame("activation_checkpoint.selective_ac_option", "expected \"op\" or a positive integer in quotes");
  }

  void float8() {
    const Recipe::Quantize::Linear::Float8& f = r_.quantize.linear.float8;
    if (f.enable_fsdp_float8_all_gather && f.recipe_name && *f.recipe_name != "tensorwise")
      blame("quantize.linear.float8.enable_fsdp_float8_all_gather",
            fmt::format("only tensorwise scales can be gathered in float8, and recipe_name is {}",
                        quote(*f.recipe_name)));
    if (f.precompute_float8_dynamic_scale_for_fsdp && !f.enable_fsdp_float8_all_gather)
      blame("quantize.linear.float8.precompute_float8_dynamic_scale_for_fsdp",
            "it needs enable_fsdp_float8_all_gather = true");
    if (r_.model.uses_float8() && r_.training.mixed_precision_param != "bfloat16")
      blame("model.converters", "Float8 needs training.mixed_precision_param = \"bfloat16\"");
  }

  const Recipe& r_;
  std::vector<Problem> problems_;
};

bool is_supported(const Key& key, const Recipe& recipe) {
  if (key.support.kind != Support::default_only) return true;
  const Value value = key.get(recipe);
  const std::vector<std::string> also = split(key.support.also, '|');
  return value == default_value(key) || std::find(also.begin(), also.end(), to_text(value)) != also.end();
}

/// TorchTitan has one filter that is no part of a name.
bool filters_by_size(const Recipe& recipe) {
  const auto& filters = recipe.quantize.linear.float8.filter_fqns;
  return recipe.model.uses_float8() &&
         std::find(filters.begin(), filters.end(), "auto_filter_small_kn") != filters.end();
}

/// Whether a recipe without the converter sets one of its keys.
bool is_idle(const Key& key, const Recipe& recipe) {
  return key.section() == "quantize.linear.float8" && !recipe.model.uses_float8();
}

}  // namespace

std::vector<Problem> problems(const Recipe& recipe) {
  std::vector<Problem> found;
  for (const Key& key : keys()) {
    const Value value = key.get(recipe);
    if (!contains(key.domain, value))
      found.push_back({key.path, fmt::format("{} = {}: expected {}", key.path, to_text(value),
                                             expectation(key.domain, value))});
  }
  for (Problem& problem : Relations(recipe).take()) found.push_back(std::move(problem));
  return found;
}

std::string join_errors(const std::vector<std::string>& lines) {
  if (lines.size() == 1) return lines.front();
  return fmt::format("{} errors in the recipe:\n  {}", lines.size(), fmt::join(lines, "\n  "));
}

void validate(const Recipe& recipe) {
  std::vector<std::string> lines;
  for (const Problem& problem : problems(recipe)) lines.push_back(problem.message);
  if (!lines.empty()) throw UsageError(join_errors(lines));
}

void check_supported(const Recipe& recipe) {
  std::vector<std::string> lines;
  for (const Key& key : keys()) {
    if (is_supported(key, recipe)) continue;
    lines.push_back(
        fmt::format("{} = {} is not supported: {}", key.path, to_text(key.get(recipe)), key.support.reason));
  }
  if (filters_by_size(recipe))
    lines.push_back(
        "quantize.linear.float8.filter_fqns: auto_filter_small_kn is not supported: name the layers");
  if (!lines.empty()) throw UsageError(join_errors(lines));
}

std::vector<std::string> notes(const Recipe& recipe) {
  std::vector<std::string> lines;
  for (const Key& key : keys()) {
    const Value value = key.get(recipe);
    const bool idle = is_idle(key, recipe);
    if ((key.support.kind == Support::no_effect || idle) && value != default_value(key))
      lines.push_back(fmt::format("{} = {} is accepted, has no effect: {}", key.path, to_text(value),
                                  idle ? "model.converters does not name float8" : key.support.reason));
  }
  return lines;
}

std::vector<std::string> warnings(const Recipe& recipe) {
  std::vector<std::string> lines;
  if (recipe.checkpoint.enable) return lines;
  for (const std::string_view path : {"checkpoint.initial_load_path", "checkpoint.load_step"}) {
    const Key& key = *find_key(path);
    if (key.get(recipe) != default_value(key))
      lines.push_back(fmt::format("{} = {} is ignored: checkpoint.enable is false, so nothing is loaded",
                                  path, to_text(key.get(recipe))));
  }
  return lines;
}

}  // namespace titan
