#include "tests/fuzz/stream.h"

#include "engine/data/byte_reader.h"
#include "tests/fuzz/fuzz.h"

namespace titan::fuzz {

std::string decompress(const TextFile& file, size_t piece) {
  constexpr size_t kEnough = size_t{1} << 18;  // a few bytes may stand for gigabytes
  const std::unique_ptr<ByteReader> reader = open_byte_reader(file);
  std::string text, buffer(piece, '\0');
  while (text.size() < kEnough) {
    const size_t got = reader->read(buffer.data(), buffer.size());
    text.append(buffer, 0, got);
    FUZZ_CHECK(reader->file_offset() >= 0 && reader->file_offset() <= file.bytes);
    if (got < buffer.size()) break;
  }
  text.resize(std::min(text.size(), kEnough));
  return text;
}

void use_stream(const TextFile& file) {
  std::string large, small;
  const bool valid = accepted([&] { large = decompress(file, size_t{1} << 16); });
  FUZZ_CHECK(accepted([&] { small = decompress(file, 61); }) == valid);
  FUZZ_CHECK(small == large);
}

}  // namespace titan::fuzz
