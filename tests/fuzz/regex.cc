// A tokenizer's pattern and a text, separated by NUL.
#include "engine/tokenizer/regex.h"

#include "engine/tokenizer/utf8.h"
#include "tests/fuzz/fuzz.h"

using namespace titan;
using namespace titan::fuzz;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::vector<std::string> parts = parts_of(text_of(data, size));
  const std::string text = replace_invalid_utf8(parts.size() > 1 ? parts[1] : "");
  FUZZ_CHECK(is_valid_utf8(text));
  accepted([&] {
    const Regex regex(parts[0]);
    RegexScratch scratch;
    for (size_t from = 0; from < text.size();) {
      const std::optional<Regex::Match> match = regex.find(text, from, scratch);
      if (!match) break;
      FUZZ_CHECK(from <= match->begin && match->begin <= match->end && match->end <= text.size());
      FUZZ_CHECK(is_valid_utf8(std::string_view(text).substr(match->begin, match->end - match->begin)));
      from = match->begin < match->end ? match->end
             : match->end < text.size()
                 ? match->end + static_cast<size_t>(utf8_char_at(text, match->end).length)
                 : text.size();
    }
  });
  return 0;
}
