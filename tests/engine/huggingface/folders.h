// Folders that transformers saved (scripts/goldens/make_hf_goldens.py), and what folders hold.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "engine/checkpoint/piece.h"
#include "engine/checkpoint/safetensors.h"

namespace titan::test {

inline std::filesystem::path golden_folder(const std::string& name) {
  return std::filesystem::path(TITAN_TEST_DATA) / "huggingface" / name;
}

/// Every tensor's type, shape and bytes.
inline std::map<std::string, std::string> tensors_of(const std::filesystem::path& folder) {
  std::map<std::string, std::string> all;
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    if (file.path().extension() != ".safetensors") continue;
    const SafetensorsReader reader(file.path());
    for (const TensorEntry& t : reader.tensors()) {
      const auto bytes = reader.bytes(t);
      all[t.name] = std::string(safetensors_name(t.type)) + to_string(t.shape) +
                    std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    }
  }
  return all;
}

}  // namespace titan::test
