#include "engine/data/prepare.h"

#include "engine/data/content_hash.h"
#include "engine/data/manifest.h"
#include "engine/data/prepared_shards.h"
#include "engine/data/shard_sequence.h"
#include "engine/data/text_source.h"
#include "engine/data/token_shard.h"
#include "engine/data/tokenize_pool.h"
#include "engine/io/file.h"
#include "engine/tokenizer/tokenizer.h"
#include "kernels/base/error.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>

namespace titan {

namespace fs = std::filesystem;

namespace {

constexpr int kPreparedFormat =
    1;  // of the folder; part of the key, so another format never meets this one's files

int64_t total_bytes(const std::vector<TextFile>& files) {
  const auto add = [](int64_t sum, const TextFile& file) { return sum + file.bytes; };
  return std::accumulate(files.begin(), files.end(), int64_t{0}, add);
}

/// Is `path` below `folder`?
bool inside(const fs::path& folder, const fs::path& path) {
  const fs::path relative = fs::weakly_canonical(path).lexically_relative(fs::weakly_canonical(folder));
  return !relative.empty() && *relative.begin() != "..";
}

/// The text files of `inputs`, without the cache's own JSON files when it lies in one of the folders.
TextFiles find_text(const std::vector<std::string>& inputs, const fs::path& cache) {
  TextFiles text = expand_text_files(inputs);
  std::erase_if(text.files, [&](const TextFile& file) { return inside(cache, file.path); });
  std::erase_if(text.ignored, [&](const fs::path& path) { return inside(cache, path); });
  return text;
}

std::vector<FileStamp> stamps_of(const std::vector<TextFile>& files) {
  std::vector<FileStamp> stamps;
  for (const TextFile& file : files) stamps.push_back(stamp_of(file.path));
  return stamps;
}

/// 0, or why this process cannot write in `folder`.
int error_of_writing(const fs::path& folder) {
  return ::access(folder.c_str(), W_OK | X_OK) == 0 ? 0 : errno;
}

/// Names the result by everything it depends on. A cache that cannot be written is only read.
std::string cache_key(const std::vector<TextFile>& files, const Tokenizer& tokenizer,
                      const PrepareOptions& options) {
  std::optional<FileLock> lock;
  if (error_of_writing(options.cache_dir) == 0) lock.emplace(options.cache_dir / "hashes.lock");
  ContentHashes hashes(options.cache_dir / kHashesFile);
  PrepareProgress progress{.bytes_total = total_bytes(files)};
  const auto on_bytes = [&](int64_t bytes) {
    progress.bytes_done += bytes;
    if (options.progress) options.progress(progress);
  };
  std::string text = fmt::format("format {} tokenizer {} bos {} eos {} chunk {} shard {}\n", kPreparedFormat,
                                 tokenizer.fingerprint(), tokenizer.bos().value_or(-1),
                                 tokenizer.eos().value_or(-1), kChunkBytes, options.max_shard_tokens);
  for (const TextFile& file : files) {
    text += fmt::format("{} {}\n", hashes.hash_of(file.path, on_bytes),
                        file.format == TextFormat::plain ? "plain" : "lines");
  }
  if (lock) hashes.save();
  return hash_text(text);
}

ShardManifest tokenize_files(const std::vector<TextFile>& files, const Tokenizer& tokenizer,
                             const fs::path& folder, const PrepareOptions& options) {
  const ShardManifest finished = clean_shard_folder(folder);
  const std::vector<FileStamp> stamps = stamps_of(files);
  const int64_t bytes_total = total_bytes(files);
  ShardSequence shards(folder, tokenizer, options.max_shard_tokens, finished);
  TextSource source(files);
  TokenizePool pool(tokenizer, options.threads);

  const auto write_oldest = [&] {
    const TokenChunk chunk = pool.pop();
    shards.append(chunk.tokens, chunk.document_starts, chunk.text_bytes);
    if (!options.progress) return;
    options.progress({PrepareProgress::Phase::tokenize, chunk.file_bytes_done, bytes_total, shards.tokens(),
                      shards.documents()});
  };
  for (int64_t i = 0; std::optional<TextChunk> chunk = source.next(); ++i) {
    if (i < finished.chunks) continue;
    if (pool.full()) write_oldest();
    pool.push(std::move(*chunk));
  }
  while (!pool.empty()) write_oldest();

  const ShardManifest& all = shards.finish();
  if (all.documents() == 0)
    throw UserError(fmt::format("{}: no document in the data", files.front().path.string()));
  if (stamps_of(files) != stamps)
    throw UserError("the text files changed while they were tokenized; start again");
  write_shard_manifest(folder / kManifestFile, all);
  return all;
}

}  // namespace

PreparedData prepare_data(const std::vector<std::string>& inputs, const Tokenizer& tokenizer,
                          const PrepareOptions& options) {
  if (const std::vector<fs::path> shards = find_shards(inputs); !shards.empty())
    return open_shards(shards, tokenizer);
  TITAN_CHECK(options.threads > 0 && options.max_shard_tokens > 0);
  TextFiles text = find_text(inputs, options.cache_dir);
  create_folder(options.cache_dir);
  const fs::path folder = options.cache_dir / cache_key(text.files, tokenizer, options);
  // A manifest is written last and in one step: a complete folder needs no lock, and no right to write.
  std::optional<ShardManifest> manifest = read_shard_manifest(folder / kManifestFile);
  bool from_cache = manifest.has_value();
  if (!manifest) {
    create_folder(folder);
    const FileLock lock(folder / "lock");
    manifest = read_shard_manifest(folder / kManifestFile);  // of a process that was waited for
    from_cache = manifest.has_value();
    if (!manifest) manifest = tokenize_files(text.files, tokenizer, folder, options);
  }

  PreparedData out;
  out.folder = folder;
  out.tokens = manifest->tokens();
  out.documents = manifest->documents();
  out.text_bytes = manifest->text_bytes();
  out.from_cache = from_cache;
  out.ignored = std::move(text.ignored);
  for (const ShardManifest::Shard& shard : manifest->shards) out.shards.push_back(folder / shard.file);
  return out;
}

}  // namespace titan
