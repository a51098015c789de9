#include "engine/data/text_files.h"

#include "tests/engine/data/data_files.h"
#include "tests/support/temp_dir.h"

#include <sys/stat.h>

#include <catch2/catch.hpp>

using namespace titan;
using namespace titan::test;
using Catch::Contains;

namespace {

std::vector<std::string> names(const TextFiles& files) {
  std::vector<std::string> out;
  for (const TextFile& file : files.files) out.push_back(file.path.filename());
  return out;
}

}  // namespace

TEST_CASE("names give format and compression") {
  const TempDir dir;
  struct Row {
    const char* name;
    TextFormat format;
    Compression compression;
  };
  for (const Row& row : {Row{"a.txt", TextFormat::plain, Compression::none},
                         Row{"README", TextFormat::plain, Compression::none},
                         Row{"a.md.gz", TextFormat::plain, Compression::gzip},
                         Row{"a.dict.dz", TextFormat::plain, Compression::gzip},
                         Row{"a.text.zst", TextFormat::plain, Compression::zstd},
                         Row{"a.jsonl", TextFormat::lines, Compression::none},
                         Row{"c4.json.gz", TextFormat::lines, Compression::gzip},
                         Row{"a.jsonl.zst", TextFormat::lines, Compression::zstd}}) {
    INFO(row.name);
    write_file(dir / row.name, "x");
    const TextFiles files = expand_text_files(std::vector{(dir / row.name).string()});
    REQUIRE(files.files.size() == 1);
    CHECK(files.files[0].format == row.format);
    CHECK(files.files[0].compression == row.compression);
    CHECK(files.files[0].bytes == 1);
  }
}

TEST_CASE("folders and globs become a sorted list without repetition") {
  const TempDir dir;
  std::filesystem::create_directories(dir / "sub");
  std::filesystem::create_directories(dir / ".git");
  for (const char* name : {"b.txt", "a.jsonl", "c.bin", "sub/d.txt", ".hidden.txt", ".git/e.txt"})
    write_file(dir / name, "x");
  write_file(dir / "empty.txt", "");

  const TextFiles folder = expand_text_files(std::vector{dir.path().string()});
  CHECK(names(folder) == std::vector<std::string>{"a.jsonl", "b.txt", "d.txt"});
  REQUIRE(folder.ignored.size() == 2);
  CHECK(folder.ignored[0].filename() == "c.bin");
  CHECK(folder.ignored[1].filename() == "empty.txt");

  const TextFiles both = expand_text_files(
      std::vector{(dir / "b.txt").string(), (dir / "?.txt").string(), (dir / "a*").string()});
  CHECK(names(both) == std::vector<std::string>{"a.jsonl", "b.txt"});
}

TEST_CASE("a file whose name looks like a glob is that file") {
  const TempDir dir;
  write_file(dir / "a[1].txt", "x");
  write_file(dir / "a1.txt", "x");
  CHECK(names(expand_text_files(std::vector{(dir / "a[1].txt").string()})) ==
        std::vector<std::string>{"a[1].txt"});
}

TEST_CASE("inputs that hold no text are errors that say what to do") {
  const TempDir dir;
  write_file(dir / "empty.txt", "");
  write_file(dir / "image.png", "x");
  write_file(dir / "data.parquet", "PAR1");
  std::filesystem::create_directories(dir / "only-parquet");
  std::filesystem::create_directories(dir / "nothing");
  write_file(dir / "only-parquet/0.parquet", "PAR1");
  const auto error = [&](const std::string& name) {
    return error_of([&] { expand_text_files(std::vector{(dir / name).string()}); });
  };
  CHECK_THAT(error("absent.txt"), Contains("absent.txt does not exist"));
  std::filesystem::create_symlink("loop.txt", dir / "loop.txt");
  CHECK_THAT(error("loop.txt"), Contains("loop.txt does not exist"));
  REQUIRE(mkfifo((dir / "pipe.txt").c_str(), 0600) == 0);
  CHECK_THAT(error("pipe.txt"), Contains("pipe.txt is neither a file nor a folder"));
  CHECK_THAT(error("*.absent"), Contains("no file matches"));
  CHECK_THAT(error("empty.txt"), Contains("empty.txt is empty (0 bytes)"));
  CHECK_THAT(error("image.png"), Contains("unknown suffix '.png'") && Contains(".jsonl"));
  CHECK_THAT(error("data.parquet"), Contains("Parquet") && Contains("to_json"));
  CHECK_THAT(error("only-parquet"), Contains("Parquet") && Contains("to_json"));
  CHECK_THAT(error("nothing"), Contains("holds no text file"));
  CHECK_THAT(error_of([] { expand_text_files({}); }), Contains("dataset_path"));
}
