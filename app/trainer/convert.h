// Models of others made titan checkpoints, and checkpoints made Hugging Face folders.
#pragma once

#include <filesystem>
#include <span>
#include <string>

#include "engine/checkpoint/load.h"
#include "engine/recipe/recipe.h"

namespace titan {

class ForeignModel;
struct ExportOptions;

/// The shape, the folder as that of the tokenizer, and windows as long as the model takes, at most 2048.
Recipe foreign_recipe(const ForeignModel& model);

/// ForeignModel::load with a progress bar.
void load_with_bar(const ForeignModel& model, std::span<const WantedTensor> wanted);

/// Writes the weights of a Hugging Face folder as the float32 checkpoint `output` (".../step-N", or step-0 in
/// `output`), tensor by tensor, with a progress bar. Gives its path. Throws UserError; an existing checkpoint
/// is never replaced.
std::filesystem::path import_model(const std::filesystem::path& folder, const std::filesystem::path& output);

/// `checkpoint` itself, or the newest in it.
std::filesystem::path newest_checkpoint(const std::filesystem::path& checkpoint);

/// Writes a checkpoint as a folder for transformers, with a progress bar: weights, configuration, and the
/// files of the tokenizer (the recipe's, or `tokenizer`). A tokenizer that cannot be exported is a warning.
void export_checkpoint(const std::filesystem::path& checkpoint, const std::filesystem::path& output,
                       const std::string& tokenizer, ExportOptions options);

}  // namespace titan
