// Text to token ids and back. Three kinds: the built-in byte tokenizer, Hugging Face's tokenizer.json
// (byte-level BPE) and Llama 3's tokenizer.model (tiktoken ranks). Ids equal those of the reference libraries
// on any UTF-8 text.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace titan {

/// Immutable after construction: every member may be called from many threads at once.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  /// Appends the ids of `text`. Adds neither BOS nor EOS; special and added tokens written in the text become
  /// their id. BPE tokenizers read UTF-8: each maximal invalid sequence counts as U+FFFD (Python's
  /// errors="replace").
  virtual void encode(std::string_view text, std::vector<int32_t>& ids) const = 0;

  /// The bytes of the tokens, special ones included. An id without a token adds nothing; a sequence cut
  /// inside a character ends in incomplete UTF-8.
  virtual std::string decode(std::span<const int32_t> ids) const = 0;

  /// Largest id + 1: the smallest embedding that holds every id.
  virtual int32_t vocab_size() const = 0;

  /// The id that begins (ends) a document, if the tokenizer has one.
  virtual std::optional<int32_t> bos() const = 0;
  virtual std::optional<int32_t> eos() const = 0;

  /// Hash of everything the ids depend on: equal fingerprints give equal ids. Keys the cache of tokenized
  /// data.
  virtual std::string fingerprint() const = 0;
};

/// Ids 0..255 are the bytes, 256 is BOS, 257 is EOS (both decode to nothing). Any bytes round-trip.
std::unique_ptr<Tokenizer> make_byte_tokenizer();

/// `path`: the word "byte", a tokenizer.json, a tokenizer.model, or a folder that holds one (tokenizer.json
/// first). A tokenizer_config.json next to the file names BOS and EOS (null: none) and special tokens; those
/// the file lacks get the next free ids, as in transformers and TorchTitan. Where it is silent, BOS is what
/// the post-processor's template puts first, then <|begin_of_text|> or <s>; EOS is <|end_of_text|> or </s>.
/// Throws UserError, with file, field and fix, for a file that is missing, malformed, or not byte-level BPE.
std::unique_ptr<Tokenizer> load_tokenizer(const std::filesystem::path& path);

}  // namespace titan
