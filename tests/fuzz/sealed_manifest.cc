#include "tests/fuzz/sealed_manifest.h"

#include <nlohmann/json.hpp>

#include "engine/checkpoint/blocks.h"
#include "engine/checkpoint/manifest.h"

namespace titan::fuzz {
namespace {

using nlohmann::json;

std::string hash_of(std::string_view bytes) {
  return fmt::format("{:016x}", hash_bytes(std::as_bytes(std::span(bytes))));
}

/// Sizes and hashes of the first file, as they are.
void describe_data(json& content, std::string_view data) {
  const json::json_pointer files("/files");
  if (!content.is_object() || !content.contains(files) || !content[files].is_array() ||
      content[files].empty())
    return;
  json& file = content[files][0];
  if (!file.is_object() || !file.contains("data_begin") || !file["data_begin"].is_number_unsigned() ||
      !file.contains("block_bytes") || !file["block_bytes"].is_number_unsigned())
    return;
  const auto begin = file["data_begin"].get<uint64_t>(), block = file["block_bytes"].get<uint64_t>();
  if (begin > data.size() || block == 0) return;
  file["data_bytes"] = data.size() - begin;
  file["header_hash"] = hash_of(data.substr(0, begin));
  file["block_hashes"] = json::array();
  for (uint64_t at = begin; at < data.size(); at += std::min<uint64_t>(block, data.size() - at))
    file["block_hashes"].push_back(hash_of(data.substr(at, block)));
}

}  // namespace

std::string sealed_manifest(std::string_view text, std::string_view data) {
  json content = json::parse(text, nullptr, /*allow_exceptions=*/false);
  const auto deep = std::count(text.begin(), text.end(), '[') + std::count(text.begin(), text.end(), '{');
  if (content.is_discarded() || deep > 1000) return std::string(text);  // printing is recursive
  if (!data.empty()) describe_data(content, data);
  const std::string printed = content.dump(-1, ' ', false, json::error_handler_t::replace);
  return json{{"format", "titan checkpoint"},
              {"version", kManifestVersion},
              {"hash", hash_of(printed)},
              {"content", content}}
      .dump();
}

}  // namespace titan::fuzz
