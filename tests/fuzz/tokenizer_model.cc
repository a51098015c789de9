// Llama 3's tokenizer.model. All 256 bytes need a token, so they are put in front of the input where it lacks
// them.
#include <fmt/format.h>

#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/tokenizer_use.h"

using namespace titan::fuzz;

namespace {

std::string all_bytes() {
  constexpr const char* kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (int b = 0; b < 256; ++b) text += fmt::format("{}{}== {}\n", kDigits[b >> 2], kDigits[(b & 3) << 4], b);
  return text;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input = text_of(data, size);
  use_tokenizer(put("tokenizer.model", input));
  use_tokenizer(put("tokenizer.model", all_bytes() + std::string(input)));
  return 0;
}
