// The safetensors format: 8 bytes of header length (little endian), a JSON header, then the tensors' bytes,
// row-major. Format: https://huggingface.co/docs/safetensors/index#format
#pragma once

#include "engine/checkpoint/stored_type.h"
#include "engine/io/file.h"

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace titan {

/// One tensor of a file. `offset` counts bytes from the start of the data section.
struct TensorEntry {
  std::string name;
  StoredType type = StoredType::f32;
  std::vector<int64_t> shape;
  int64_t offset = 0;
  int64_t bytes = 0;
};

using TensorMetadata = std::map<std::string, std::string>;

/// A memory-mapped file. The constructor checks everything there is to check: it throws UserError with the
/// file, the tensor and the values for a bad length, JSON, type, shape or range, and for overlaps, holes and
/// duplicate names.
class SafetensorsReader {
 public:
  explicit SafetensorsReader(const std::filesystem::path& path);

  const std::vector<TensorEntry>& tensors() const { return tensors_; }  ///< in order of offset
  const TensorEntry* find(const std::string& name) const;               ///< null if absent
  std::span<const std::byte> bytes(const TensorEntry& tensor) const;    ///< no alignment promised
  const TensorMetadata& metadata() const { return metadata_; }
  int64_t data_begin() const { return data_begin_; }  ///< bytes before the data section

 private:
  void parse(const std::string& path);

  MappedFile file_;
  int64_t data_begin_ = 0;
  std::vector<TensorEntry> tensors_;
  std::unordered_map<std::string, size_t> by_name_;
  TensorMetadata metadata_;
};

/// Gives the tensors their `offset` and `bytes`, one after another, from `type` and `shape`.
void assign_offsets(std::vector<TensorEntry>& tensors);

/// The bytes before the data section, padded with blanks to a multiple of 8.
std::string safetensors_header(std::span<const TensorEntry> tensors, const TensorMetadata& metadata);

/// Writes a new file: described first, then the bytes of all tensors in order, in spans of any size.
class SafetensorsWriter {
 public:
  SafetensorsWriter(const std::filesystem::path& path, std::vector<TensorEntry> tensors,
                    const TensorMetadata& metadata, DiskHook hook = {});
  void write(std::span<const std::byte> bytes);
  void finish();  ///< checks that all bytes came; makes the file durable
  const std::vector<TensorEntry>& tensors() const { return tensors_; }
  const std::string& header() const { return header_; }

 private:
  std::vector<TensorEntry> tensors_;
  std::string header_;
  OutputFile file_;
  int64_t remaining_ = 0;
};

}  // namespace titan
