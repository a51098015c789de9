#include "app/trainer/run_data.h"

#include <spdlog/spdlog.h>

#include <thread>

#include "app/trainer/prepare_bar.h"
#include "engine/data/content_hash.h"
#include "engine/data/prepare.h"
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

}  // namespace

std::unique_ptr<Tokenizer> recipe_tokenizer(const Recipe& recipe) {
  const std::string& path =
      recipe.model.tokenizer.empty() ? recipe.model.hf_assets_path : recipe.model.tokenizer;
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
  if (t.dataset_path.empty())
    throw UserError(
        fmt::format("training.dataset_path is not set: dataset '{}' is not downloaded by titan; "
                    "set training.dataset_path to text files, a folder or token shards",
                    t.dataset));
  RunData run;
  const PreparedData data = prepare(recipe, t.dataset_path, tokenizer);
  std::string names;
  for (const auto& shard : data.shards)  // a cache folder is named after its content
    names += (shard.parent_path().filename() / shard.filename()).string() + "\n";
  run.identity = hash_text(names + tokenizer.fingerprint());
  run.training_set = std::make_unique<TokenDataset>(data.shards, t.seq_len, t.document_mask);
  run.training = run.training_set->all();
  spdlog::info("Training data: {} tokens in {} documents, {} windows of {}{}",
               run.training_set->token_count(), run.training_set->document_count(),
               run.training_set->windows(), t.seq_len, data.from_cache ? " (prepared before)" : "");
  if (!recipe.validation.enable) return run;

  const Recipe::Validation& v = recipe.validation;
  if (!v.dataset_path.empty()) {
    const PreparedData held_out = prepare(recipe, v.dataset_path, tokenizer);
    run.validation_set = std::make_unique<TokenDataset>(held_out.shards, v.seq_len, t.document_mask);
    run.validation = run.validation_set->all();
  } else {
    if (v.split <= 0)
      throw UserError(
          "validation is enabled but has no data: set validation.dataset_path, or validation.split to hold "
          "out "
          "a share of the training data (for example 0.01)");
    if (v.seq_len != t.seq_len)
      throw UserError(
          fmt::format("validation.split holds out training windows, so validation.seq_len {} must equal "
                      "training.seq_len {}",
                      v.seq_len, t.seq_len));
    const WindowSplit split = split_windows(run.training_set->windows(), v.split);
    run.training = split.training;
    run.validation = split.validation;
    run.validation_set = std::make_unique<TokenDataset>(data.shards, v.seq_len, t.document_mask);
  }
  spdlog::info("Validation data: {} windows of {}", run.validation.count, v.seq_len);
  return run;
}

}  // namespace titan
