// Sequential bytes of one text file, decompressed while they are read. Memory: one input buffer and the
// decoder's window.
#pragma once

#include "engine/data/text_files.h"

#include <cstddef>
#include <cstdint>
#include <memory>

namespace titan {

class ByteReader {
 public:
  virtual ~ByteReader() = default;
  /// Fills `buffer` with up to `size` decompressed bytes; fewer than `size` only at the end of the file.
  /// Throws UserError with path and file offset: unreadable, truncated or damaged data.
  virtual size_t read(char* buffer, size_t size) = 0;
  /// Bytes of the file on disk consumed so far (for progress).
  virtual int64_t file_offset() const = 0;
};

std::unique_ptr<ByteReader> open_byte_reader(const TextFile& file);

}  // namespace titan
