#include "engine/tokenizer/bpe_tokenizer.h"

#include <fmt/format.h>

#include <mutex>

#include "engine/tokenizer/content_hash.h"
#include "engine/tokenizer/utf8.h"

namespace titan {
namespace {

struct Scratch {
  RegexScratch regex;
  Bpe::Scratch bpe;
};

// Hands each running call working memory of its own and keeps it warm for the next call.
class ScratchPool {
 public:
  class Lease {
   public:
    explicit Lease(ScratchPool& pool) : pool_(pool), scratch_(pool.take()) {}
    ~Lease() { pool_.put(std::move(scratch_)); }
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    Scratch& operator*() { return *scratch_; }

   private:
    ScratchPool& pool_;
    std::unique_ptr<Scratch> scratch_;
  };

 private:
  std::unique_ptr<Scratch> take() {
    const std::lock_guard lock(mutex_);
    if (idle_.empty()) return std::make_unique<Scratch>();
    std::unique_ptr<Scratch> scratch = std::move(idle_.back());
    idle_.pop_back();
    return scratch;
  }
  void put(std::unique_ptr<Scratch> scratch) {
    const std::lock_guard lock(mutex_);
    idle_.push_back(std::move(scratch));
  }

  std::mutex mutex_;
  std::vector<std::unique_ptr<Scratch>> idle_;
};

class BpeTokenizer final : public Tokenizer {
 public:
  BpeTokenizer(BpeDescription description, std::string fingerprint)
      : bpe_(std::move(description.model)),
        pre_tokenizer_(std::move(description.stages)),
        added_(std::move(description.added)),
        bos_(description.bos),
        eos_(description.eos),
        fingerprint_(std::move(fingerprint)) {}

  void encode(std::string_view text, std::vector<int32_t>& ids) const override {
    std::string repaired;
    if (!is_valid_utf8(text)) {
      repaired = replace_invalid_utf8(text);
      text = repaired;
    }
    ScratchPool::Lease lease(scratches_);
    Scratch& scratch = *lease;
    const PreTokenizer::Sink on_word = [&](std::string_view word) { bpe_.encode(word, scratch.bpe, ids); };
    added_.split(
        text, scratch.regex, [&](int32_t id) { ids.push_back(id); },
        [&](std::string_view piece) { pre_tokenizer_.split(piece, scratch.regex, on_word); });
  }

  std::string decode(std::span<const int32_t> ids) const override {
    std::string text;
    for (const int32_t id : ids) {
      if (id >= 0 && id < vocab_size()) text += bpe_.tokens()[id];
    }
    return text;
  }

  int32_t vocab_size() const override { return static_cast<int32_t>(bpe_.tokens().size()); }
  std::optional<int32_t> bos() const override { return bos_; }
  std::optional<int32_t> eos() const override { return eos_; }
  std::string fingerprint() const override { return fingerprint_; }

 private:
  Bpe bpe_;
  PreTokenizer pre_tokenizer_;
  AddedTokens added_;
  std::optional<int32_t> bos_, eos_;
  std::string fingerprint_;
  mutable ScratchPool scratches_;
};

// The file, the special tokens (tokenizer_config.json adds some) and the version of this code's meaning.
std::string make_fingerprint(const BpeDescription& description) {
  std::string text = fmt::format("bpe-v1 {} {} {}", description.content_hash, description.bos.value_or(-1),
                                 description.eos.value_or(-1));
  for (const AddedToken& t : description.added) {
    text += fmt::format(" {} {} {}{}{}{}", t.id, t.content, t.normalized, t.lstrip, t.rstrip, t.single_word);
  }
  return content_hash(text);
}

}  // namespace

std::unique_ptr<Tokenizer> make_bpe_tokenizer(BpeDescription description) {
  std::string fingerprint = make_fingerprint(description);
  return std::make_unique<BpeTokenizer>(std::move(description), std::move(fingerprint));
}

}  // namespace titan
