// A plain text file is one document, whole, in chunks of any size.
#include "tests/fuzz/documents.h"
#include "tests/fuzz/fuzz.h"

using namespace titan;
using namespace titan::fuzz;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view text = text_of(data, size);
  const TextFile file{put("a.txt", text), TextFormat::plain, Compression::none, static_cast<int64_t>(size)};
  for (const size_t chunk_bytes : {size_t{1}, size_t{7}, size_t{100}, size_t{4096}}) {
    const std::vector<std::string> documents = documents_of(file, chunk_bytes);
    FUZZ_CHECK(documents.size() == 1 && documents.front() == text);
  }
  return 0;
}
