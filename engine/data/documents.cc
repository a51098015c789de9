#include "engine/data/documents.h"

#include "engine/data/byte_reader.h"
#include "engine/data/text_source.h"

#include <memory>
#include <optional>
#include <string>

namespace titan {

namespace {

std::string read_whole(const TextFile& file) {
  const std::unique_ptr<ByteReader> reader = open_byte_reader(file);
  std::string text;
  for (;;) {
    const size_t before = text.size();
    text.resize(before + kChunkBytes);
    const size_t got = reader->read(text.data() + before, kChunkBytes);
    text.resize(before + got);
    if (got < kChunkBytes) return text;
  }
}

}  // namespace

void for_each_document(const std::vector<TextFile>& files,
                       const std::function<void(std::string_view)>& visit) {
  for (const TextFile& file : files) {
    if (file.format == TextFormat::plain) {
      visit(read_whole(file));
      continue;
    }
    const std::vector<TextFile> one = {file};
    TextSource source(one);
    while (const std::optional<TextChunk> chunk = source.next())
      for_each_piece(*chunk, [&](const TextPiece& piece) { visit(piece.text); });
  }
}

}  // namespace titan
