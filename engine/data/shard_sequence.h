// A folder of token shards while it is written: shard after shard, each finished one recorded in
// progress.json.
#pragma once

#include "engine/data/manifest.h"
#include "engine/data/token_shard.h"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

namespace titan {

class Tokenizer;

/// What an earlier run finished in `folder`, after everything else it left was removed.
ShardManifest clean_shard_folder(const std::filesystem::path& folder);

class ShardSequence {
 public:
  /// Goes on after the shards of `finished`. `tokenizer` must outlive the sequence.
  ShardSequence(std::filesystem::path folder, const Tokenizer& tokenizer, int64_t max_shard_tokens,
                ShardManifest finished);

  /// One chunk of tokens; `document_starts` are positions in it. Throws UserError when the disk is full.
  void append(std::span<const int32_t> tokens, std::span<const int64_t> document_starts, int64_t text_bytes);
  /// Finishes the last shard and returns all of them.
  const ShardManifest& finish();

  int64_t tokens() const { return manifest_.tokens() + (writer_ ? writer_->token_count() : 0); }
  int64_t documents() const { return manifest_.documents() + (writer_ ? writer_->document_count() : 0); }

 private:
  std::string file_name() const;
  void finish_shard();

  std::filesystem::path folder_;
  const Tokenizer& tokenizer_;
  int64_t max_shard_tokens_;
  ShardManifest manifest_;
  std::unique_ptr<ShardWriter> writer_;
  int64_t chunks_ = 0;  ///< in the unfinished shard
};

}  // namespace titan
