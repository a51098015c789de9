#include "engine/metrics/append_file.h"

#include <catch2/catch.hpp>

#include "kernels/base/error.h"
#include "tests/engine/metrics/file_support.h"
#include "tests/support/temp_dir.h"

namespace titan {
namespace {

TEST_CASE("records are in the file as soon as they are appended, after what was there") {
  const test::TempDir folder;
  const auto path = folder / "new" / "log";
  AppendFile(path).append("one\n");
  AppendFile file(path);
  file.append("two\n");
  CHECK(test::read_file(path) == "one\ntwo\n");
}

TEST_CASE("a record that does not fit leaves nothing behind, and the file can be used again") {
  const test::TempDir folder;
  AppendFile file(folder / "log");
  file.append("one\n");
  {
    const test::FileSizeLimit full(6);  // two bytes of the next record fit
    CHECK_THROWS_AS(file.append("two\n"), UserError);
  }
  CHECK(test::read_file(file.path()) == "one\n");
  file.append("three\n");
  CHECK(test::read_file(file.path()) == "one\nthree\n");
}

TEST_CASE("a file that cannot be opened or written is named") {
  const test::TempDir folder;
  test::write_file(folder / "file", "");
  CHECK_THROWS_WITH(AppendFile(folder / "file" / "log"), Catch::Contains((folder / "file" / "log").string()));
  CHECK_THROWS_WITH(AppendFile(folder.path()), Catch::Contains("Is a directory"));
  CHECK_THROWS_WITH(AppendFile("/dev/full").append("x"), Catch::Contains("No space left"));
}

}  // namespace
}  // namespace titan
