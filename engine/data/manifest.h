// The list of shards in a prepared folder: manifest.json when it is complete, progress.json while it grows.
#pragma once

#include "engine/data/token_shard.h"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace titan {

inline constexpr const char* kManifestFile = "manifest.json";
inline constexpr const char* kProgressFile = "progress.json";

struct ShardManifest {
  struct Shard {
    std::string file;  ///< name in the folder
    int64_t tokens = 0;
    int64_t documents = 0;
    int64_t text_bytes = 0;
    uint64_t content_hash = 0;
  };
  std::vector<Shard> shards;
  int64_t chunks = 0;  ///< text chunks (TextSource) these shards were made from: where to go on
  int64_t tokens() const;
  int64_t documents() const;
  int64_t text_bytes() const;
};

void write_shard_manifest(const std::filesystem::path& path, const ShardManifest& manifest);

/// Nothing when the file is missing or damaged, or names no shard, or one that is missing, damaged or another
/// one: then the folder has to be prepared (again).
std::optional<ShardManifest> read_shard_manifest(const std::filesystem::path& path);

}  // namespace titan
