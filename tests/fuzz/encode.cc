// Arbitrary bytes through every kind of tokenizer: they come back, and a long text may be cut where find_cut
// says.
#include "engine/data/text_source.h"
#include "engine/tokenizer/tokenizer.h"
#include "engine/tokenizer/utf8.h"
#include "tests/fuzz/fuzz.h"

using namespace titan;
using namespace titan::fuzz;

namespace {

std::vector<int32_t> encode(const Tokenizer& tokenizer, std::string_view text) {
  std::vector<int32_t> ids;
  tokenizer.encode(text, ids);
  for (const int32_t id : ids) FUZZ_CHECK(id >= 0 && id < tokenizer.vocab_size());
  return ids;
}

std::unique_ptr<Tokenizer> load(const std::string& path) {
  return load_tokenizer(std::string(TITAN_SOURCES) + path);
}

bool letter(char c) { return (c | 0x20) >= 'a' && (c | 0x20) <= 'z'; }

/// A cut at a line or between words, where Llama 3's pattern has no match across it.
bool clean_cut(std::string_view text, size_t cut) {
  if (cut >= text.size()) return false;
  const char before = text[cut - 1], after = text[cut];
  if (before == '\n') return after > ' ' && after < 0x7f;
  return letter(before) && after == ' ' && cut + 1 < text.size() && letter(text[cut + 1]);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const auto byte = make_byte_tokenizer();
  static const auto english = load("/configs/tokenizers/english_2048");
  static const auto gpt2 = load("/tests/data/tokenizer/gpt2_small");
  static const auto llama = load("/tests/data/tokenizer/tiktoken_small");

  const std::string_view text = text_of(data, size);
  const std::string repaired = replace_invalid_utf8(text);
  FUZZ_CHECK(is_valid_utf8(repaired));
  FUZZ_CHECK((repaired == text) == is_valid_utf8(text));
  FUZZ_CHECK(byte->decode(encode(*byte, text)) == text);
  FUZZ_CHECK(english->decode(encode(*english, text)) == repaired);
  FUZZ_CHECK(llama->decode(encode(*llama, text)) == repaired);
  gpt2->decode(encode(*gpt2, text));  // its special tokens take the spaces beside them

  for (const std::string_view part : {text, text.substr(0, size / 2), text.substr(0, size / 3)}) {
    if (part.empty()) continue;
    const size_t cut = find_cut(part);
    FUZZ_CHECK(cut > 0 && cut <= part.size());
    if (!clean_cut(part, cut)) continue;
    std::vector<int32_t> joined = encode(*llama, text.substr(0, cut));
    const std::vector<int32_t> rest = encode(*llama, text.substr(cut));
    joined.insert(joined.end(), rest.begin(), rest.end());
    FUZZ_CHECK(joined == encode(*llama, text));
  }
  return 0;
}
