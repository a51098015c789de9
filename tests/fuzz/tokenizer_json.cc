// A Hugging Face tokenizer.json.
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/tokenizer_use.h"

using namespace titan::fuzz;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  use_tokenizer(put("tokenizer.json", text_of(data, size)));
  return 0;
}
