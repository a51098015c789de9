#include "engine/tokenizer/tokenizer.h"

namespace titan {
namespace {

constexpr int32_t kBytes = 256;
constexpr int32_t kBos = kBytes;
constexpr int32_t kEos = kBytes + 1;

class ByteTokenizer final : public Tokenizer {
 public:
  void encode(std::string_view text, std::vector<int32_t>& ids) const override {
    ids.reserve(ids.size() + text.size());
    for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
  }

  std::string decode(std::span<const int32_t> ids) const override {
    std::string text;
    text.reserve(ids.size());
    for (const int32_t id : ids) {
      if (id >= 0 && id < kBytes) text.push_back(static_cast<char>(id));
    }
    return text;
  }

  int32_t vocab_size() const override { return kBytes + 2; }
  std::optional<int32_t> bos() const override { return kBos; }
  std::optional<int32_t> eos() const override { return kEos; }
  std::string fingerprint() const override { return "byte-v1"; }
};

}  // namespace

std::unique_ptr<Tokenizer> make_byte_tokenizer() { return std::make_unique<ByteTokenizer>(); }

}  // namespace titan
