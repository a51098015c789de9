// Runs a target on every file of a folder: the committed corpus, as a test, with any compiler.
#include "tests/fuzz/fuzz.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>

int main(int argc, char** argv) {
  if (argc != 2) titan::fuzz::fail("usage: replay FOLDER");
  LLVMFuzzerInitialize(&argc, &argv);
  std::vector<std::filesystem::path> inputs;
  for (const auto& entry : std::filesystem::directory_iterator(argv[1])) inputs.push_back(entry.path());
  std::sort(inputs.begin(), inputs.end());
  for (const std::filesystem::path& path : inputs) {
    std::printf("%s\n", path.c_str());
    std::fflush(stdout);  // the last line names the input of a crash
    std::ifstream file(path, std::ios::binary);
    const std::string bytes(std::istreambuf_iterator<char>(file), {});
    LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  }
  if (inputs.empty()) titan::fuzz::fail("no inputs");
  std::printf("%zu inputs\n", inputs.size());
}
