// Bytes as a zstd stream, and a zstd stream of the bytes.
#include "tests/engine/data/data_files.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/stream.h"

using namespace titan;
using namespace titan::fuzz;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto file = [](std::string_view bytes) {
    return TextFile{put("a.txt.zst", bytes), TextFormat::plain, Compression::zstd,
                    static_cast<int64_t>(bytes.size())};
  };
  const std::string text(text_of(data, size));
  use_stream(file(text));
  FUZZ_CHECK(decompress(file(test::zstd(text) + test::zstd(text)), 1000) == text + text);
  return 0;
}
