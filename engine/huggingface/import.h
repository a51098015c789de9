// Reading the weights of a Hugging Face folder, tensor by tensor.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/checkpoint/load.h"
#include "engine/huggingface/config.h"

namespace titan {

struct TensorEntry;

/// Whether `folder` looks like a model of others: it has a config.json or a params.json and no titan.json.
bool is_foreign_model(const std::filesystem::path& folder);

/// A folder with config.json and safetensors: model.safetensors, shards with model.safetensors.index.json, or
/// all *.safetensors there are. Tensors are named as Hugging Face does, or as Meta and TorchTitan do; rows of
/// q and k are then put into Hugging Face's order as they are read. Weights are mapped to no memory: reads go
/// through small buffers.
class ForeignModel {
 public:
  /// Checks everything but the weights' values. Throws UserError for a format that is not read (with what to
  /// convert it with), missing, extra or misshapen tensors, types other than float32, bfloat16, float16.
  explicit ForeignModel(const std::filesystem::path& folder);
  ~ForeignModel();

  const std::filesystem::path& folder() const { return folder_; }
  const ForeignConfig& config() const { return config_; }
  /// Elements [begin, begin + out.size()) of a parameter, in row-major order. Safe from several threads.
  void read(const std::string& parameter, std::int64_t begin, std::span<float> out) const;
  /// The parameters among `wanted`: their pieces; other state stays.
  void load(std::span<const WantedTensor> wanted) const;

 private:
  struct File;
  struct Source {
    const File* file = nullptr;
    std::int64_t offset = 0;  ///< bytes in the file
    StoredType type = StoredType::f32;
    std::int64_t rows = 0, cols = 0;
    bool interleaved = false;  ///< in Meta's order of rows
  };

  void open_files();
  void read_params();
  void find_parameters();
  const TensorEntry* find(const std::string& name, const File** file) const;
  void check_extra() const;
  void check_tied_head(const std::string& name) const;
  void read_run(const Source& source, std::int64_t begin, std::span<float> out) const;

  std::filesystem::path folder_;
  ForeignConfig config_;
  std::vector<std::unique_ptr<File>> files_;
  std::unordered_map<std::string, const File*> file_of_;  ///< by the tensor's name
  std::unordered_map<std::string, Source> sources_;       ///< by the parameter's name
};

}  // namespace titan
