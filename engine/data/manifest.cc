#include "engine/data/manifest.h"

#include "engine/io/file.h"
#include "engine/io/json.h"
#include "kernels/base/error.h"

#include <algorithm>
#include <fstream>
#include <iterator>

namespace titan {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

int64_t sum(const std::vector<ShardManifest::Shard>& shards, int64_t ShardManifest::Shard::*field) {
  int64_t total = 0;
  for (const ShardManifest::Shard& shard : shards) total += shard.*field;
  return total;
}

ShardManifest parse(const json& in) {
  ShardManifest manifest;
  manifest.chunks = whole_number(in.at("chunks"));
  for (const json& s : in.at("shards")) {
    manifest.shards.push_back({s.at("file"), whole_number(s.at("tokens")), whole_number(s.at("documents")),
                               whole_number(s.at("text_bytes")),
                               whole_number<uint64_t>(s.at("content_hash"))});
  }
  return manifest;
}

/// The shard and what it says of itself.
bool on_disk(const fs::path& folder, const ShardManifest::Shard& shard) {
  if (fs::path(shard.file).filename() != shard.file) return false;  // of another folder
  try {
    const ShardInfo info = read_shard_info(folder / shard.file);
    return info.content_hash == shard.content_hash && info.token_count == shard.tokens &&
           info.document_count == shard.documents && info.text_bytes == shard.text_bytes;
  } catch (const UserError&) {
    return false;
  }
}

}  // namespace

int64_t ShardManifest::tokens() const { return sum(shards, &Shard::tokens); }
int64_t ShardManifest::documents() const { return sum(shards, &Shard::documents); }
int64_t ShardManifest::text_bytes() const { return sum(shards, &Shard::text_bytes); }

void write_shard_manifest(const fs::path& path, const ShardManifest& manifest) {
  json shards = json::array();
  for (const ShardManifest::Shard& s : manifest.shards) {
    shards.push_back({{"file", s.file},
                      {"tokens", s.tokens},
                      {"documents", s.documents},
                      {"text_bytes", s.text_bytes},
                      {"content_hash", s.content_hash}});
  }
  write_file_atomically(path,
                        json{{"chunks", manifest.chunks}, {"shards", std::move(shards)}}.dump(1) + "\n");
}

std::optional<ShardManifest> read_shard_manifest(const fs::path& path) {
  std::ifstream in(path);
  if (!in) return std::nullopt;
  const std::string text(std::istreambuf_iterator<char>(in), {});
  try {
    ShardManifest manifest = parse(parse_json(text));
    const auto present = [&](const ShardManifest::Shard& shard) {
      return on_disk(path.parent_path(), shard);
    };
    if (manifest.shards.empty() || !std::all_of(manifest.shards.begin(), manifest.shards.end(), present))
      return std::nullopt;
    return manifest;
  } catch (const json::exception&) {
    return std::nullopt;
  } catch (const JsonError&) {
    return std::nullopt;
  }
}

}  // namespace titan
