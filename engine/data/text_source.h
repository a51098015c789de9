// A list of text files as one deterministic sequence of chunks, each small enough to tokenize as a unit of
// work.
//
// Chunk boundaries are a pure function of the decompressed bytes and of kChunkBytes, never of threads, reads
// or compression. JSON lines are cut after whole lines. A plain file is one document; when it is longer than
// a chunk it is cut
//   1. after the last '\n' whose next character is not whitespace, else
//   2. before the last ' ' that stands between two ASCII letters, else
//   3. before the last UTF-8 character that begins in the chunk.
// The pre-tokenizer of Llama 3 has no match across a cut of kind 1 or 2, and its only look-ahead,
// `\s+(?!\S)`, cannot apply there, so the tokens of the pieces, joined, are exactly the tokens of the whole
// document. Kind 3 (1 MiB without a line break or a space) may split one word; it is still the same split on
// every run.
#pragma once

#include "engine/data/text_files.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace titan {

class ByteReader;

inline constexpr size_t kChunkBytes = size_t{1} << 20;
inline constexpr size_t kMaxLineBytes = size_t{1} << 30;  ///< of a JSON line, which must be whole in memory

/// A run of bytes of one file: part of a plain document, or whole JSON lines.
struct TextChunk {
  const TextFile* file = nullptr;
  std::string bytes;
  int64_t first_line = 1;        ///< line number of bytes[0] (JSON lines only)
  bool begins_document = false;  ///< plain: bytes[0] is the document's first
  bool ends_document = false;    ///< plain: the last byte is the document's last
  int64_t file_bytes_done = 0;   ///< on-disk bytes of all files consumed up to here (progress)
};

/// A document or a part of one.
struct TextPiece {
  std::string_view text;
  bool begins_document = false;
  bool ends_document = false;
};

class TextSource {
 public:
  /// `files` must outlive the source and its chunks. `chunk_bytes` differs from kChunkBytes in tests only.
  explicit TextSource(const std::vector<TextFile>& files, size_t chunk_bytes = kChunkBytes);
  ~TextSource();
  TextSource(const TextSource&) = delete;
  TextSource& operator=(const TextSource&) = delete;

  /// The next chunk, or nothing after the last. Throws UserError (see ByteReader; also a file without any
  /// text, and a JSON line longer than kMaxLineBytes).
  std::optional<TextChunk> next();

 private:
  void close_file();
  void fill(size_t target);
  TextChunk take(size_t bytes);
  std::optional<TextChunk> next_plain();
  std::optional<TextChunk> next_lines();

  const std::vector<TextFile>& files_;
  size_t chunk_bytes_;
  size_t file_ = 0;  ///< index of the open file, or of the next one to open
  std::unique_ptr<ByteReader> reader_;
  std::string buffer_;    ///< read, not yet handed out
  bool at_end_ = false;   ///< the reader has no more bytes
  bool started_ = false;  ///< a chunk of the open file was handed out
  int64_t line_ = 1;
  int64_t finished_files_bytes_ = 0;
};

/// Calls `visit` for every document, or part of one, in `chunk`. Pure, so chunks may be parsed in parallel.
/// Throws UserError "file:line: reason" for a line that is not a JSON object with a string field "text".
void for_each_piece(const TextChunk& chunk, const std::function<void(const TextPiece&)>& visit);

/// Where to cut `text` so that the tokens of both sides are the tokens of the whole (rule above); in (0,
/// text.size()]. The last bytes of `text` are only looked at: a cut needs the character that follows it.
size_t find_cut(std::string_view text);

}  // namespace titan
