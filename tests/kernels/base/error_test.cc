#include "kernels/base/error.h"

#include <catch2/catch.hpp>

using namespace titan;

TEST_CASE("messages can be shown on a terminal") {
  CHECK(readable("") == "");
  CHECK(readable("a \"b\"\n  caf\xC3\xA9\n") == "a \"b\"\n  caf\xC3\xA9\n");
  CHECK(readable(std::string("\x1b[31m\r\t\0\x7f", 9)) == "\\x1b[31m\\x0d\\x09\\x00\\x7f");
  CHECK(std::string(UserError("a\bb").what()) == "a\\x08b");
}

TEST_CASE("a long line of a message keeps its begin and its end") {
  const std::string line = "place: " + std::string(5000, 'x') + ": fix";
  const std::string shown = readable("first\n" + line + "\nlast");
  CHECK(shown.size() < 1100);
  CHECK(shown.starts_with("first\nplace: xxx"));
  CHECK(shown.ends_with("xxx: fix\nlast"));
  CHECK_THAT(shown, Catch::Contains(" [4012 bytes more] "));
  CHECK(readable(shown).size() < 1100);
  const std::string short_enough(1000, 'y');
  CHECK(readable(short_enough + "\n" + short_enough) == short_enough + "\n" + short_enough);
}
