// hashes.json of a data cache: whatever it says, a file's hash is its own unless the stamp says it is
// unchanged.
#include "engine/data/content_hash.h"

#include "tests/fuzz/fuzz.h"

using namespace titan;
using namespace titan::fuzz;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::filesystem::path text = put("text.txt", "some text");
  const std::filesystem::path path = put(kHashesFile, text_of(data, size));
  const auto ignore = [](int64_t) {};
  ContentHashes hashes(path);
  FUZZ_CHECK(hashes.hash_of(text, ignore) == hash_text("some text"));  // no input guesses its times
  hashes.save();
  ContentHashes again(path);
  bool read = false;
  FUZZ_CHECK(again.hash_of(text, [&](int64_t) { read = true; }) == hash_text("some text") && read);
  return 0;
}
