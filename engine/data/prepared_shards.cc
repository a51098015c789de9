#include "engine/data/prepared_shards.h"

#include "engine/data/content_hash.h"
#include "engine/data/manifest.h"
#include "engine/data/token_shard.h"
#include "engine/io/file.h"
#include "engine/tokenizer/tokenizer.h"
#include "kernels/base/error.h"

#include <algorithm>
#include <optional>

namespace titan {

namespace fs = std::filesystem;

namespace {

bool is_shard(const fs::path& path) { return path.extension() == kShardSuffix; }

std::vector<fs::path> shards_of_manifest(const fs::path& folder) {
  const std::optional<ShardManifest> manifest = read_shard_manifest(folder / kManifestFile);
  if (!manifest) {
    throw UserError(
        fmt::format("{}: a shard that {} names is missing or damaged; run `titan data prepare` again",
                    folder.string(), kManifestFile));
  }
  std::vector<fs::path> shards;
  for (const ShardManifest::Shard& shard : manifest->shards) shards.push_back(folder / shard.file);
  return shards;
}

/// The one prepared folder in `cache`.
fs::path prepared_folder(const fs::path& cache) {
  std::vector<fs::path> folders;
  for (const fs::directory_entry& entry : fs::directory_iterator(cache)) {
    if (fs::exists(entry.path() / kManifestFile)) folders.push_back(entry.path());
  }
  if (folders.size() == 1) return folders.front();
  throw UserError(fmt::format("{} is a cache of {} prepared data sets; name the folder of the one to use",
                              cache.string(), folders.size()));
}

std::vector<fs::path> shards_in_folder(const fs::path& folder) {
  if (fs::exists(folder / kManifestFile)) return shards_of_manifest(folder);
  if (fs::exists(folder / kHashesFile)) return shards_of_manifest(prepared_folder(folder));
  if (fs::exists(folder / kProgressFile)) {
    throw UserError(
        fmt::format("{}: its preparation has not finished; run `titan data prepare` again", folder.string()));
  }
  std::vector<fs::path> shards;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (is_shard(entry.path())) shards.push_back(entry.path());
  }
  std::sort(shards.begin(), shards.end());
  return shards;
}

std::vector<fs::path> shards_of_input(const std::string& input) {
  if (fs::is_directory(input)) return shards_in_folder(input);
  if (fs::exists(input)) return is_shard(input) ? std::vector<fs::path>{input} : std::vector<fs::path>{};
  return is_shard(input) ? matching_paths(input) : std::vector<fs::path>{};
}

}  // namespace

std::vector<fs::path> find_shards(const std::vector<std::string>& inputs) {
  std::vector<fs::path> shards;
  std::optional<std::string> text;
  for (const std::string& input : inputs) {
    const std::vector<fs::path> found = shards_of_input(input);
    if (found.empty()) text = input;
    shards.insert(shards.end(), found.begin(), found.end());
  }
  if (text && !shards.empty()) {
    throw UserError(fmt::format("{} is text and {} is a token shard; give only one kind", *text,
                                shards.front().string()));
  }
  return shards;
}

PreparedData open_shards(const std::vector<fs::path>& shards, const Tokenizer& tokenizer) {
  PreparedData out;
  out.shards = shards;
  out.from_cache = true;
  for (const fs::path& path : shards) {
    const ShardInfo info = read_shard_info(path);
    if (info.tokenizer != tokenizer.fingerprint()) {
      throw UserError(fmt::format(
          "{} was made by tokenizer {}, the recipe's is {}; prepare the text with this tokenizer, or name "
          "the other in model.tokenizer",
          path.string(), info.tokenizer, tokenizer.fingerprint()));
    }
    if (info.vocab_size != tokenizer.vocab_size()) {
      throw UserError(
          fmt::format("{} was made with a vocabulary of {}, the tokenizer has {} ids; prepare the text again",
                      path.string(), info.vocab_size, tokenizer.vocab_size()));
    }
    out.tokens += info.token_count;
    out.documents += info.document_count;
    out.text_bytes += info.text_bytes;
  }
  return out;
}

}  // namespace titan
