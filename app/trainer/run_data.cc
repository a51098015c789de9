#include "app/trainer/run_data.h"

#include <spdlog/spdlog.h>

#include <thread>

#include "app/trainer/prepare_bar.h"
#include "engine/data/content_hash.h"
#include "engine/data/prepare.h"
#include "engine/data/sample_mix.h"
#include "engine/model/config.h"
#include "engine/recipe/recipe.h"
#include "engine/tokenizer/tokenizer.h"
#include "kernels/base/error.h"

namespace titan {
namespace {

int threads_of(const Recipe& recipe) {
  return recipe.debug.threads > 0 ? static_cast<int>(recipe.debug.threads)
                                  : static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}

PreparedData prepare(const Recipe& recipe, const std::vector<std::string>& inputs,
                     const Tokenizer& tokenizer) {
  PreparedData data = prepare_with_bar(inputs, tokenizer, data_cache(recipe), threads_of(recipe));
  for (const auto& path : data.ignored)
    spdlog::info("Ignoring {}: not a text file titan reads", path.string());
  return data;
}

/// A data set of the recipe: its paths and, in a mixture, its weight.
struct Source {
  std::vector<std::string> paths;
  std::int64_t weight = 1;
};

std::vector<Source> sources_of(const Recipe::Training& t) {
  if (t.dataset_mix.empty()) {
    if (t.dataset_path.empty())
      throw UserError(
          fmt::format("training.dataset_path is not set: dataset '{}' is not downloaded by titan; "
                      "set training.dataset_path to text files, a folder or token shards",
                      t.dataset));
    return {{t.dataset_path}};
  }
  if (!t.dataset_path.empty())
    throw UserError("training.dataset_path and training.dataset_mix are both set; keep one of them");
  std::vector<Source> sources;
  std::vector<std::string_view> weights;
  for (const std::string& entry : t.dataset_mix) {
    const std::size_t equals = entry.rfind('=');
    if (equals == std::string::npos || equals == 0)
      throw UserError(
          fmt::format("training.dataset_mix: \"{}\" is not PATH=WEIGHT, such as \"data/code=0.3\"", entry));
    sources.push_back({{entry.substr(0, equals)}});
    weights.push_back(std::string_view(entry).substr(equals + 1));
  }
  try {
    const std::vector<std::int64_t> whole = whole_weights(weights);
    for (std::size_t i = 0; i < sources.size(); ++i) sources[i].weight = whole[i];
  } catch (const UserError& error) {
    throw UserError(fmt::format("training.dataset_mix: {}", error.what()));
  }
  return sources;
}

/// Adds the data set of `shards` to the run.
const TokenDataset* add_dataset(const std::vector<std::filesystem::path>& shards, std::int64_t seq_len,
                                bool document_mask, RunData& run) {
  run.datasets.push_back(std::make_unique<TokenDataset>(shards, seq_len, document_mask));
  return run.datasets.back().get();
}

}  // namespace

const std::string& tokenizer_path(const Recipe& recipe) {
  return recipe.model.tokenizer.empty() ? recipe.model.hf_assets_path : recipe.model.tokenizer;
}

std::unique_ptr<Tokenizer> recipe_tokenizer(const Recipe& recipe) {
  const std::string& path = tokenizer_path(recipe);
  if (path != "byte" && !std::filesystem::exists(path))
    throw UserError(
        fmt::format("tokenizer: {} does not exist ({}); set model.tokenizer to a tokenizer.json, a folder "
                    "with one, or \"byte\"",
                    path, recipe.model.tokenizer.empty() ? "model.hf_assets_path" : "model.tokenizer"));
  return load_tokenizer(path);
}

void check_vocabulary(const Tokenizer& tokenizer, const ModelConfig& config) {
  if (tokenizer.vocab_size() > config.vocab_size)
    throw UserError(fmt::format(
        "the tokenizer has {} ids, the model's embedding {} rows; set model.vocab_size to at least {}",
        tokenizer.vocab_size(), config.vocab_size, tokenizer.vocab_size()));
}

std::filesystem::path data_cache(const Recipe& recipe) {
  return recipe.training.data_cache.empty() ? std::filesystem::path(recipe.job.dump_folder) / "data"
                                            : std::filesystem::path(recipe.training.data_cache);
}

RunData open_run_data(const Recipe& recipe, const Tokenizer& tokenizer) {
  const Recipe::Training& t = recipe.training;
  const Recipe::Validation& v = recipe.validation;
  const bool hold_out = v.enable && v.dataset_path.empty();
  if (hold_out && v.split <= 0)
    throw UserError(
        "validation is enabled but has no data: set validation.dataset_path, or validation.split to hold out "
        "a share of the training data (for example 0.01)");
  if (hold_out && v.seq_len != t.seq_len)
    throw UserError(
        fmt::format("validation.split holds out training windows, so validation.seq_len {} must equal "
                    "training.seq_len {}",
                    v.seq_len, t.seq_len));
  RunData run;
  std::string names;
  const std::vector<Source> sources = sources_of(t);
  for (const Source& source : sources) {
    const PreparedData data = prepare(recipe, source.paths, tokenizer);
    for (const auto& shard : data.shards)  // a cache folder is named after its content
      names += (shard.parent_path().filename() / shard.filename()).string() + "\n";
    if (sources.size() > 1) names += fmt::format("weight {}\n", source.weight);
    const TokenDataset* dataset = add_dataset(data.shards, t.seq_len, t.document_mask, run);
    const WindowSplit split = split_windows(dataset->windows(), hold_out ? v.split : 0.0);
    run.training.push_back({dataset, split.training, source.weight});
    if (hold_out) run.validation.push_back({dataset, split.validation});
    const std::string what =
        sources.size() > 1 ? fmt::format("{}, weight {}", source.paths.front(), source.weight) : "data";
    spdlog::info("Training {}: {} tokens in {} documents, {} windows of {}{}", what, dataset->token_count(),
                 dataset->document_count(), dataset->windows(), t.seq_len,
                 data.from_cache ? " (prepared before)" : "");
  }
  run.identity = hash_text(names + tokenizer.fingerprint());
  if (v.enable && !hold_out) {
    const PreparedData data = prepare(recipe, v.dataset_path, tokenizer);
    const TokenDataset* dataset = add_dataset(data.shards, v.seq_len, t.document_mask, run);
    run.validation.push_back({dataset, dataset->all()});
  }
  std::int64_t held_out = 0;
  for (const DataPart& part : run.validation) held_out += part.range.count;
  if (v.enable) spdlog::info("Validation data: {} windows of {}", held_out, v.seq_len);
  return run;
}

}  // namespace titan
