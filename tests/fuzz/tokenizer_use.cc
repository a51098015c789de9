#include "tests/fuzz/tokenizer_use.h"

#include "tests/fuzz/fuzz.h"

namespace titan::fuzz {
namespace {

constexpr char kHard[] =
    "Hello, world! It's 1234567 o'clock\r\n\r\n \t  x\n   \xC3\xA9t\xC3\xA9 \xE4\xBD\xA0\xE5\xA5\xBD "
    "\xF0\x9F\x98\x80\xF0\x9F\x98\x80 \xCC\x81\xC2\xA0\xE3\x80\x80 \xFF\xC0\x80\xED\xA0\x80 \0 "
    "<|begin_of_text|>"
    "<s></s><|end_of_text|> aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab"
    "                                                        !!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!\n\n\n";
constexpr std::string_view kHardText(kHard, sizeof(kHard) - 1);  // it holds a NUL

}  // namespace

void use_tokenizer(const std::filesystem::path& path) {
  std::unique_ptr<Tokenizer> tokenizer;
  if (!accepted([&] { tokenizer = load_tokenizer(path); })) return;
  const int32_t vocabulary = tokenizer->vocab_size();
  FUZZ_CHECK(vocabulary > 0);
  FUZZ_CHECK(tokenizer->bos().value_or(0) >= 0 && tokenizer->bos().value_or(0) < vocabulary);
  FUZZ_CHECK(tokenizer->eos().value_or(0) >= 0 && tokenizer->eos().value_or(0) < vocabulary);
  FUZZ_CHECK(tokenizer->fingerprint().size() < 96);  // fits a shard's header

  std::vector<int32_t> ids, again;
  if (!accepted([&] { tokenizer->encode(kHardText, ids); })) return;
  tokenizer->encode(kHardText, again);  // with warm caches
  FUZZ_CHECK(ids == again);
  for (const int32_t id : ids) FUZZ_CHECK(id >= 0 && id < vocabulary);
  tokenizer->decode(ids);
  tokenizer->decode(std::vector<int32_t>{-1, vocabulary, INT32_MAX, INT32_MIN});
}

}  // namespace titan::fuzz
