#include "tests/fuzz/fuzz.h"

#include "tests/support/temp_dir.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>

namespace titan::fuzz {
namespace {

constexpr size_t kLongestLine = 1200;

}  // namespace

std::filesystem::path folder() {
  static const test::TempDir folder;
  return folder.path();
}

std::filesystem::path put(const std::string& name, std::string_view bytes) {
  std::filesystem::path path = folder() / name;
  std::ofstream file(path, std::ios::binary);
  file << bytes;
  if (!file.flush()) fail("cannot write " + path.string());
  return path;
}

std::vector<std::string> parts_of(std::string_view input, char separator) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= input.size();) {
    const size_t end = std::min(input.find(separator, begin), input.size());
    parts.emplace_back(input.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

void fail(std::string_view what) {
  std::fprintf(stderr, "%.*s\n", static_cast<int>(what.size()), what.data());
  std::abort();
}

void check_message(std::string_view message) {
  FUZZ_CHECK(!message.empty());
  for (const std::string& line : parts_of(message, '\n')) {
    FUZZ_CHECK(line.size() <= kLongestLine);
    for (const char c : line) FUZZ_CHECK(static_cast<unsigned char>(c) >= 0x20 && c != 0x7f);
  }
}

}  // namespace titan::fuzz

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  spdlog::set_level(spdlog::level::off);
  return 0;
}
