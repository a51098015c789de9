// A text file of JSON lines: the same documents or the same error in chunks of any size, and what is printed
// is read.
#include <nlohmann/json.hpp>

#include "tests/fuzz/documents.h"
#include "tests/fuzz/fuzz.h"

using namespace titan;
using namespace titan::fuzz;

namespace {

struct Outcome {
  std::vector<std::string> documents;
  std::string error;
  bool operator==(const Outcome&) const = default;
};

Outcome read(std::string_view bytes, size_t chunk_bytes) {
  const TextFile file{put("a.jsonl", bytes), TextFormat::lines, Compression::none,
                      static_cast<int64_t>(bytes.size())};
  Outcome outcome;
  try {
    outcome.documents = documents_of(file, chunk_bytes);
  } catch (const UserError& error) {
    check_message(error.what());
    outcome.error = error.what();
  }
  return outcome;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const Outcome whole = read(text_of(data, size), 4096);
  FUZZ_CHECK(read(text_of(data, size), 1) == whole);
  FUZZ_CHECK(read(text_of(data, size), 50) == whole);
  if (!whole.error.empty() || whole.documents.empty()) return 0;
  std::string printed;
  for (const std::string& text : whole.documents) printed += nlohmann::json{{"text", text}}.dump() + "\n";
  FUZZ_CHECK(read(printed, 4096) == whole);
  return 0;
}
