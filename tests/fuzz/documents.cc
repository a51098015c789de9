#include "tests/fuzz/documents.h"

#include "engine/data/text_source.h"
#include "tests/fuzz/fuzz.h"

namespace titan::fuzz {

std::vector<std::string> documents_of(const TextFile& file, size_t chunk_bytes) {
  std::vector<std::string> documents;
  const std::vector<TextFile> files{file};
  TextSource source(files, chunk_bytes);
  bool open = false;
  int64_t done = 0;
  while (const std::optional<TextChunk> chunk = source.next()) {
    FUZZ_CHECK(!chunk->bytes.empty());
    FUZZ_CHECK(file.format == TextFormat::lines || chunk->bytes.size() <= chunk_bytes);
    FUZZ_CHECK(chunk->file_bytes_done >= done && chunk->file_bytes_done <= file.bytes);
    done = chunk->file_bytes_done;
    for_each_piece(*chunk, [&](const TextPiece& piece) {
      FUZZ_CHECK(piece.begins_document != open);
      if (piece.begins_document) documents.emplace_back();
      documents.back() += piece.text;
      open = !piece.ends_document;
    });
  }
  FUZZ_CHECK(!open);
  return documents;
}

}  // namespace titan::fuzz
