// The tokenizer_config.json next to a small tokenizer.json.
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/tokenizer_use.h"

using namespace titan::fuzz;

namespace {

constexpr std::string_view kTokenizer = R"({
  "added_tokens": [{"id": 5, "content": "<s>", "special": true}],
  "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "use_regex": true},
  "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2, "l": 3, "o": 4}, "merges": ["a b"]}
})";

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  put("tokenizer_config.json", text_of(data, size));
  use_tokenizer(put("tokenizer.json", kTokenizer));
  return 0;
}
