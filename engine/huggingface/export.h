// Writing a folder that transformers opens.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "engine/checkpoint/stored_type.h"
#include "engine/huggingface/config.h"
#include "engine/io/file.h"

namespace titan {

struct ExportOptions {
  StoredType type = StoredType::f32;             ///< f32, bf16 or f16
  std::int64_t max_shard_bytes = 5'000'000'000;  ///< of a file, unless one tensor is larger
  bool replace = false;                          ///< an existing folder; else it is an error
  std::function<void(std::int64_t bytes)> progress = {};
  DiskHook hook = {};
};

/// A small file of the folder.
struct SmallFile {
  std::string name, text;
};

/// Fills `values` with a parameter, whole and row-major.
using ReadParameter = std::function<void(const ParameterSpec& parameter, std::span<float> values)>;

/// The bytes of all weights.
std::int64_t exported_bytes(const ModelConfig& model, StoredType type);

/// Writes `texts` (config.json among them) and the weights, in model.safetensors or in shards with an index.
/// One tensor is in memory at a time. The folder appears whole, by a rename. Throws UserError: the folder
/// exists, there is too little space, a write fails.
void write_foreign_model(const std::filesystem::path& folder, const ModelConfig& model,
                         const std::vector<SmallFile>& texts, const ReadParameter& read,
                         const ExportOptions& options);

}  // namespace titan
