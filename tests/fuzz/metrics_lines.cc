// metrics.jsonl of a run that goes on after step 5: whole lines up to there stay, and a second look changes
// nothing.
#include "engine/metrics/jsonl.h"

#include <algorithm>
#include <fstream>
#include <iterator>

#include "tests/fuzz/fuzz.h"

using namespace titan;
using namespace titan::fuzz;

namespace {

std::string rewound(const std::filesystem::path& path) {
  rewind_jsonl(path, 5);
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text = text_of(data, size);
  const std::string once = rewound(put("metrics.jsonl", text));
  FUZZ_CHECK(once.empty() || once.back() == '\n');
  const std::vector<std::string> before = parts_of(text, '\n');
  auto next = before.begin();
  for (const std::string& line :
       parts_of(std::string_view(once).substr(0, once.empty() ? 0 : once.size() - 1), '\n')) {
    if (once.empty()) break;
    next = std::find(next, before.end(), line);
    FUZZ_CHECK(next++ != before.end());  // in the old order
  }
  FUZZ_CHECK(rewound(folder() / "metrics.jsonl") == once);
  return 0;
}
