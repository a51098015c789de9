#include <catch2/catch.hpp>

#include "engine/tokenizer/tokenizer.h"
#include "engine/tokenizer/utf8.h"

namespace titan {

TEST_CASE("the byte tokenizer round-trips any bytes and keeps BOS and EOS apart from them", "[tokenizer]") {
  const std::unique_ptr<Tokenizer> tokenizer = load_tokenizer("byte");
  std::string bytes;
  for (int b = 0; b < 256; ++b) bytes.push_back(static_cast<char>(b));
  std::vector<int32_t> ids = {*tokenizer->bos()};
  tokenizer->encode(bytes, ids);
  ids.push_back(*tokenizer->eos());

  REQUIRE(ids.size() == 258);
  CHECK(ids.front() == 256);
  CHECK(ids[1 + 0xE9] == 0xE9);
  CHECK(ids.back() == 257);
  CHECK(tokenizer->vocab_size() == 258);
  CHECK(tokenizer->decode(ids) == bytes);
}

TEST_CASE("each maximal invalid sequence of UTF-8 becomes one U+FFFD", "[tokenizer]") {
  // What Python gives for b"...".decode("utf-8", errors="replace"), counted in replacement characters.
  struct Case {
    std::string bytes;
    std::string repaired;
  };
  const std::string r = "\xEF\xBF\xBD";
  const Case cases[] = {
      {"plain", "plain"},
      {"a\x80z", "a" + r + "z"},
      {"\xC0\xAF", r + r},                  // overlong: neither byte can begin a character
      {"\xE0\x80\xAF", r + r + r},          // overlong
      {"\xED\xA0\x80", r + r + r},          // surrogate
      {"\xF4\x90\x80\x80", r + r + r + r},  // above U+10FFFF
      {"\xE2\x82", r},                      // cut at the end
      {"\xE2\x82z", r + "z"},
      {"\xF0\x9F\x98", r},
      {"\xF0\x9F\xE2\x82\xAC", r + "\xE2\x82\xAC"},
      {"\xFF\xFE", r + r},
      {"\xF0\x9F\x98\x80", "\xF0\x9F\x98\x80"},
  };
  for (const Case& c : cases) {
    CHECK(replace_invalid_utf8(c.bytes) == c.repaired);
    CHECK(is_valid_utf8(c.bytes) == (c.bytes == c.repaired));
    CHECK_FALSE(is_valid_utf8("long enough for the fast path " + c.bytes + "\xFF"));
  }
}

}  // namespace titan
