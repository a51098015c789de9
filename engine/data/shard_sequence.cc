#include "engine/data/shard_sequence.h"

#include "engine/tokenizer/tokenizer.h"
#include "kernels/base/error.h"

#include <algorithm>
#include <utility>

namespace titan {

namespace fs = std::filesystem;

namespace {

// Bounds the table of starts a ShardWriter keeps in memory.
constexpr int64_t kMaxShardDocuments = int64_t{1} << 24;

}  // namespace

ShardManifest clean_shard_folder(const fs::path& folder) {
  ShardManifest finished = read_shard_manifest(folder / kProgressFile).value_or(ShardManifest{});
  const auto keep = [&](const std::string& name) {
    const auto named = [&](const ShardManifest::Shard& shard) { return shard.file == name; };
    return std::any_of(finished.shards.begin(), finished.shards.end(), named);
  };
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const std::string suffix = entry.path().extension();
    if ((suffix == ".tmp" || suffix == kShardSuffix) && !keep(entry.path().filename()))
      fs::remove(entry.path());
  }
  fs::remove(folder / kManifestFile);
  return finished;
}

ShardSequence::ShardSequence(fs::path folder, const Tokenizer& tokenizer, int64_t max_shard_tokens,
                             ShardManifest finished)
    : folder_(std::move(folder)),
      tokenizer_(tokenizer),
      max_shard_tokens_(max_shard_tokens),
      manifest_(std::move(finished)) {}

void ShardSequence::append(std::span<const int32_t> tokens, std::span<const int64_t> document_starts,
                           int64_t text_bytes) {
  if (!writer_)
    writer_ = std::make_unique<ShardWriter>(folder_ / file_name(), tokenizer_.vocab_size(),
                                            tokenizer_.fingerprint());
  writer_->append(tokens, document_starts, text_bytes);
  ++chunks_;
  if (writer_->token_count() >= max_shard_tokens_ || writer_->document_count() >= kMaxShardDocuments)
    finish_shard();
}

const ShardManifest& ShardSequence::finish() {
  if (writer_ && writer_->token_count() > 0) finish_shard();
  return manifest_;
}

std::string ShardSequence::file_name() const {
  return fmt::format("shard-{:05}{}", manifest_.shards.size(), kShardSuffix);
}

void ShardSequence::finish_shard() {
  const std::string name = file_name();
  const ShardInfo info = writer_->finish();
  writer_.reset();
  manifest_.shards.push_back(
      {name, info.token_count, info.document_count, info.text_bytes, info.content_hash});
  manifest_.chunks += std::exchange(chunks_, 0);
  write_shard_manifest(folder_ / kProgressFile, manifest_);
}

}  // namespace titan
