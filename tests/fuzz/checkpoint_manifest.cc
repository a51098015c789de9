// titan.json, as it is and with a right hash around it: what is read prints as it was.
#include "engine/checkpoint/manifest.h"

#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/sealed_manifest.h"

using namespace titan;
using namespace titan::fuzz;

namespace {

void use(const std::string& text) {
  Manifest manifest;
  if (!accepted([&] { manifest = parse_manifest(text, "titan.json"); })) return;
  for (const StoredFile& file : manifest.files)
    for (const StoredTensor& tensor : file.tensors) {
      FUZZ_CHECK(tensor.bytes() >= 0 && tensor.offset + tensor.bytes() <= file.data_bytes);
      tensor_name(tensor.piece, tensor.kind);
    }
  const std::string printed = to_json(manifest);
  FUZZ_CHECK(to_json(parse_manifest(printed, "printed")) == printed);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(text_of(data, size));
  use(text);
  use(sealed_manifest(text));
  return 0;
}
