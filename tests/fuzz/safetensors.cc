// A safetensors file: what is read can be written, and is then read the same.
#include "engine/checkpoint/safetensors.h"

#include <cstring>
#include <optional>

#include "tests/fuzz/fuzz.h"

using namespace titan;
using namespace titan::fuzz;

namespace {

/// With the length of the header made right for a header that ends at the last brace.
std::string with_length(std::string bytes) {
  const size_t end = bytes.rfind('}');
  if (bytes.size() < 8 || end == std::string::npos || end < 8) return bytes;
  const uint64_t length = end + 1 - 8;
  std::memcpy(bytes.data(), &length, sizeof(length));
  return bytes;
}

void use(const std::filesystem::path& path) {
  std::optional<SafetensorsReader> reader;
  if (!accepted([&] { reader.emplace(path); })) return;
  std::string data;
  for (const TensorEntry& tensor : reader->tensors()) {
    const auto bytes = reader->bytes(tensor);
    FUZZ_CHECK(static_cast<int64_t>(bytes.size()) == tensor.bytes);
    FUZZ_CHECK(reader->find(tensor.name) != nullptr);
    data.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  const SafetensorsReader again(
      put("again", safetensors_header(reader->tensors(), reader->metadata()) + data));
  FUZZ_CHECK(again.metadata() == reader->metadata() && again.tensors().size() == reader->tensors().size());
  for (const TensorEntry& tensor : reader->tensors()) {
    const TensorEntry* other = again.find(tensor.name);
    FUZZ_CHECK(other != nullptr && other->type == tensor.type && other->shape == tensor.shape &&
               other->offset == tensor.offset && other->bytes == tensor.bytes);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  use(put("a.safetensors", text_of(data, size)));
  use(put("a.safetensors", with_length(std::string(text_of(data, size)))));
  return 0;
}
