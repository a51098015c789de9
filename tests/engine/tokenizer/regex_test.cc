#include "engine/tokenizer/regex.h"

#include <catch2/catch.hpp>

#include "engine/tokenizer/pre_tokenizer.h"
#include "kernels/base/error.h"

namespace titan {
namespace {

std::vector<std::string> split(std::vector<PreTokenizer::Stage> stages, std::string_view text) {
  const PreTokenizer pre_tokenizer(std::move(stages));
  RegexScratch scratch;
  std::vector<std::string> words;
  pre_tokenizer.split(text, scratch, [&](std::string_view word) { words.emplace_back(word); });
  return words;
}

std::vector<std::string> split(std::string_view pattern, std::string_view text, bool keep_gaps = true) {
  std::vector<PreTokenizer::Stage> stages;
  stages.emplace_back(SplitByRegex{Regex(pattern), keep_gaps});
  return split(std::move(stages), text);
}

using Words = std::vector<std::string>;

}  // namespace

TEST_CASE("Llama 3's pattern", "[tokenizer]") {
  CHECK(split(kLlama3Pattern, "I'M 12345 don't\r\n\r\n  x") ==
        Words{"I", "'M", " ", "123", "45", " don", "'t", "\r\n\r\n", " ", " x"});
}

TEST_CASE("character classes know Unicode 16", "[tokenizer]") {
  CHECK(split(R"(\p{L}+)", "a\u1C89b!\U00031350") == Words{"a\u1C89b", "!", "\U00031350"});
  CHECK(split(R"([^\p{L}\p{N}]+)", "!\u1C89!\U00010D40") == Words{"!", "\u1C89", "!", "\U00010D40"});
  CHECK(split(R"(\P{N}+)", "ab\U00010D40") == Words{"ab", "\U00010D40"});
  CHECK(split(R"(\s+)", "a\u180Eb\u0085c") == Words{"a\u180Eb", "\u0085", "c"});
  CHECK(split(R"(\w+)", "a_\u00B2\u0301-") == Words{"a_\u00B2\u0301", "-"});
  CHECK(split(R"(\d)", "1\u0662\u00B2") == Words{"1", "\u0662", "\u00B2"});
}

TEST_CASE("what lies between matches is kept or dropped", "[tokenizer]") {
  CHECK(split("b+", "abba") == Words{"a", "bb", "a"});
  CHECK(split("b+", "abba", false) == Words{"bb"});
  CHECK(split("b*", "ab\u00E9") == Words{"a", "b", "\u00E9"});
  CHECK(split("x", "abba") == Words{"abba"});
}

TEST_CASE("each stage splits the pieces of the one before", "[tokenizer]") {
  std::vector<PreTokenizer::Stage> stages;
  stages.emplace_back(SplitByRegex{Regex(R"(\p{N})")});
  stages.emplace_back(AddPrefixSpace{});
  stages.emplace_back(SplitByRegex{Regex(R"( ?\p{L}| )")});
  CHECK(split(std::move(stages), "ab1 c") == Words{" a", "b", " ", "1", " c"});
}

TEST_CASE("a pattern that tries every way to match gives up", "[tokenizer]") {
  const std::string text(40, 'a');
  CHECK_THROWS_WITH(split("(?:a|a)+[bc]", text), Catch::Contains("gave up at byte 0 of a text of 40 bytes"));
  CHECK(split("(?:a|b)+[bc]?", text + "b") == Words{text + "b"});
  const std::string spaces(2'000'000, ' ');  // a step a byte is no such pattern
  CHECK(split("(?: )*[bc]|(?: )+", spaces).size() == 1);
}

TEST_CASE("what regex engines read differently is refused", "[tokenizer]") {
  for (const char* pattern : {"^a",          "a$",           R"(\h)",         R"(\bx)",
                              R"(\v)",       R"([a[b]])",    R"([a&&b])",     "(?m)a",
                              "(?P<name>a)", R"(\p{Greek})", R"([\P{L}])",    R"([\S])",
                              "a{2}+",       "a{,3}",        "a{x}",          "[]a]",
                              "[a",          R"(\)",         R"(\p{L)",       R"(\u12)",
                              R"(\1)",       "(a",           R"(\x{110000})", "*"}) {
    INFO(pattern);
    CHECK_THROWS_AS(Regex(pattern), UserError);
  }
}

}  // namespace titan
