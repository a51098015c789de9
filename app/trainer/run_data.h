// The data of a run: tokenizer, prepared shards, training and validation windows, as the recipe names them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/data/batch.h"

namespace titan {

class Tokenizer;
struct ModelConfig;
struct Recipe;

/// What `model.tokenizer` or else `model.hf_assets_path` says: "byte", a file or a folder.
const std::string& tokenizer_path(const Recipe& recipe);
/// The tokenizer that `model.tokenizer` or else `model.hf_assets_path` names. Throws UserError naming both
/// keys.
std::unique_ptr<Tokenizer> recipe_tokenizer(const Recipe& recipe);
/// Throws UserError when the model's embedding has fewer rows than the tokenizer has ids.
void check_vocabulary(const Tokenizer& tokenizer, const ModelConfig& config);

/// `training.data_cache`, or <dump_folder>/data.
std::filesystem::path data_cache(const Recipe& recipe);

struct RunData {
  std::vector<std::unique_ptr<TokenDataset>> datasets;
  std::vector<DataPart> training;    ///< one, or those of `training.dataset_mix` with their weights
  std::vector<DataPart> validation;  ///< empty when validation is off
  std::string identity;              ///< changes when the training data or a weight does
};

/// Prepares what is not prepared yet, with a progress bar. Throws UserError when the recipe names no data,
/// too little, or data that cannot be read.
RunData open_run_data(const Recipe& recipe, const Tokenizer& tokenizer);

}  // namespace titan
