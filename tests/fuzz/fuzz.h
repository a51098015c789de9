// What the fuzz targets share. A target is one file with LLVMFuzzerTestOneInput: libFuzzer calls it with
// inputs it makes up, replay.cc with those of tests/fuzz/corpus.
#pragma once

#include "kernels/base/error.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace titan::fuzz {

/// Writes a file of this process and gives its path: most parsers read paths. One name is one file.
std::filesystem::path put(const std::string& name, std::string_view bytes);
std::filesystem::path folder();  ///< where `put` writes

inline std::string_view text_of(const uint8_t* data, size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

/// The parts of an input between `separator`s; at least one.
std::vector<std::string> parts_of(std::string_view input, char separator = '\0');

/// Ends the process, with `what` on stderr.
[[noreturn]] void fail(std::string_view what);

/// Every error of a user is one that can be read: not empty, no control characters, no endless lines.
void check_message(std::string_view message);

/// Whether `parse` took its input. It may refuse it with a UserError; any other exception ends the process.
template <class Parse>
bool accepted(const Parse& parse) {
  try {
    parse();
    return true;
  } catch (const UserError& error) {
    check_message(error.what());
    return false;
  }
}

}  // namespace titan::fuzz

/// A property that holds for every input.
#define FUZZ_CHECK(condition)                                                       \
  do {                                                                              \
    if (!(condition)) ::titan::fuzz::fail(__FILE__ ": does not hold: " #condition); \
  } while (false)

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv);
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
