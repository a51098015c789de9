// Token shards: the tokens of many documents in one memory-mapped file.
//
// Little-endian layout (version 1):
//   header           kShardHeaderBytes, see token_shard.cc
//   tokens           token_count x uint16 (vocabulary <= 65536) or uint32, zero-padded to a multiple of 8
//   bytes document starts  document_count x uint64, strictly increasing positions in this shard's tokens
// A document may continue in the next shard; then that shard's first start is greater than 0.
// The header carries its own XXH3-64 and that of everything after it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace titan {

class FileWriter;
class MappedFile;

inline constexpr int64_t kShardHeaderBytes = 160;
inline constexpr const char* kShardSuffix = ".tokens";

struct ShardInfo {
  int token_bytes = 2;     ///< 2 or 4
  int64_t vocab_size = 0;  ///< every token is below it
  int64_t token_count = 0;
  int64_t document_count = 0;  ///< documents that begin in this shard
  int64_t text_bytes = 0;      ///< of text the tokens came from
  uint64_t content_hash = 0;   ///< XXH3-64 of all bytes after the header
  std::string tokenizer;       ///< fingerprint, at most 95 bytes
};

/// Writes `path`.tmp; `finish` completes the header, syncs and renames, so `path` exists only when whole.
class ShardWriter {
 public:
  /// Throws UserError when the file cannot be created.
  ShardWriter(std::filesystem::path path, int64_t vocab_size, std::string tokenizer_fingerprint);
  ~ShardWriter();  ///< an unfinished file is removed
  ShardWriter(const ShardWriter&) = delete;
  ShardWriter& operator=(const ShardWriter&) = delete;

  /// `document_starts` are positions in `tokens`. Throws UserError when the disk is full.
  void append(std::span<const int32_t> tokens, std::span<const int64_t> document_starts, int64_t text_bytes);
  ShardInfo finish();
  int64_t token_count() const { return info_.token_count; }
  int64_t document_count() const { return info_.document_count; }

 private:
  void write(const void* bytes, size_t size);

  ShardInfo info_;
  std::unique_ptr<FileWriter> file_;
  struct Hash;
  std::unique_ptr<Hash> hash_;
  std::vector<uint64_t> starts_;
  std::vector<char> narrow_;  ///< tokens of one append, in the file's type
};

/// A memory-mapped shard. No field of the file is trusted: sizes are checked against the file's length when
/// it is opened, tokens and document starts when they are read. All errors are UserErrors with path, offset,
/// value and fix.
class TokenShard {
 public:
  explicit TokenShard(std::filesystem::path path);
  ~TokenShard();
  TokenShard(TokenShard&&) noexcept;
  TokenShard& operator=(TokenShard&&) = delete;

  const std::filesystem::path& path() const { return path_; }
  const ShardInfo& info() const { return info_; }
  /// Tokens [begin, begin + out.size()), which must be in the shard; each is checked to be in the vocabulary.
  void read(int64_t begin, std::span<int32_t> out) const;
  /// Positions of the documents that begin in [begin, end), appended to `out` with `offset` added.
  void document_starts(int64_t begin, int64_t end, int64_t offset, std::vector<int64_t>& out) const;
  /// Reads the whole file and compares its hash.
  void verify() const;

 private:
  uint64_t start(int64_t document) const;

  std::filesystem::path path_;
  std::unique_ptr<MappedFile> file_;
  ShardInfo info_;
  const std::byte* tokens_ = nullptr;
  const std::byte* starts_ = nullptr;
};

/// Reads and checks only the header (and the file's length).
ShardInfo read_shard_info(const std::filesystem::path& path);

}  // namespace titan
