#include "engine/data/token_shard.h"

#include "engine/io/file.h"
#include "kernels/base/error.h"

#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>

namespace titan {

namespace fs = std::filesystem;

static_assert(std::endian::native == std::endian::little, "shards are little-endian and mapped as they are");

namespace {

constexpr char kMagic[8] = {'T', 'I', 'T', 'A', 'N', 'T', 'O', 'K'};
constexpr uint32_t kVersion = 1;
constexpr int64_t kMaxUint16Vocab = 65536;
constexpr int64_t kMaxVocab = int64_t{1} << 31;  // ids are int32
constexpr size_t kFingerprintBytes = 96;         // with the final NUL

struct Header {
  char magic[8];
  uint32_t version;
  uint32_t token_bytes;
  uint64_t vocab_size;
  uint64_t token_count;
  uint64_t document_count;
  uint64_t text_bytes;
  uint64_t content_hash;
  char tokenizer[kFingerprintBytes];
  uint64_t header_hash;  // XXH3-64 of the bytes before it
};
static_assert(sizeof(Header) == kShardHeaderBytes);

uint64_t header_hash(const Header& header) { return XXH3_64bits(&header, offsetof(Header, header_hash)); }

int64_t padded_token_bytes(int64_t token_count, int64_t token_bytes) {
  return (token_count * token_bytes + 7) / 8 * 8;
}

int token_bytes_for(int64_t vocab_size) { return vocab_size <= kMaxUint16Vocab ? 2 : 4; }

[[noreturn]] void fail(const fs::path& path, int64_t offset, const std::string& what) {
  throw UserError(
      fmt::format("{}: byte {}: {}; the token shard is damaged: delete it and run `titan data prepare` again",
                  path.string(), offset, what));
}

/// The header of a file of `file_bytes` bytes, with every length proven to lie inside the file.
ShardInfo check_header(const fs::path& path, std::span<const std::byte> file) {
  const uint64_t file_bytes = file.size();
  if (file_bytes < sizeof(Header)) {
    fail(path, 0, fmt::format("{} bytes, shorter than the header of {}", file_bytes, sizeof(Header)));
  }
  Header h;
  std::memcpy(&h, file.data(), sizeof(h));
  if (std::memcmp(h.magic, kMagic, sizeof(kMagic)) != 0) fail(path, 0, "no magic TITANTOK");
  if (h.version != kVersion) {
    throw UserError(fmt::format(
        "{}: byte {}: format version {}, this titan reads version {}; run `titan data prepare` again",
        path.string(), offsetof(Header, version), h.version, kVersion));
  }
  if (h.header_hash != header_hash(h)) {
    fail(path, offsetof(Header, header_hash),
         fmt::format("header hash {:016x}, the header's is {:016x}", h.header_hash, header_hash(h)));
  }
  if (h.vocab_size < 1 || h.vocab_size > kMaxVocab) {
    fail(path, offsetof(Header, vocab_size),
         fmt::format("vocabulary size {}, expected 1 to {}", h.vocab_size, kMaxVocab));
  }
  if (static_cast<int>(h.token_bytes) != token_bytes_for(static_cast<int64_t>(h.vocab_size))) {
    fail(path, offsetof(Header, token_bytes),
         fmt::format("{} bytes a token, expected {} for a vocabulary of {}", h.token_bytes,
                     token_bytes_for(static_cast<int64_t>(h.vocab_size)), h.vocab_size));
  }
  const uint64_t content_bytes = file_bytes - sizeof(Header);
  if (h.token_count < 1 || h.token_count > content_bytes / h.token_bytes) {
    fail(
        path, offsetof(Header, token_count),
        fmt::format("{} tokens of {} bytes in a file of {} bytes", h.token_count, h.token_bytes, file_bytes));
  }
  if (h.document_count > h.token_count || h.document_count > content_bytes / sizeof(uint64_t)) {
    fail(path, offsetof(Header, document_count),
         fmt::format("{} documents of {} tokens in a file of {} bytes", h.document_count, h.token_count,
                     file_bytes));
  }
  const uint64_t expected =
      static_cast<uint64_t>(padded_token_bytes(static_cast<int64_t>(h.token_count), h.token_bytes)) +
      h.document_count * sizeof(uint64_t);
  if (content_bytes != expected) {
    fail(
        path, offsetof(Header, token_count),
        fmt::format("the header describes {} bytes, the file has {}", sizeof(Header) + expected, file_bytes));
  }
  if (h.text_bytes > static_cast<uint64_t>(INT64_MAX)) {
    fail(path, offsetof(Header, text_bytes), fmt::format("{} bytes of text", h.text_bytes));
  }
  if (h.tokenizer[kFingerprintBytes - 1] != '\0')
    fail(path, offsetof(Header, tokenizer), "unterminated tokenizer fingerprint");

  ShardInfo info;
  info.token_bytes = static_cast<int>(h.token_bytes);
  info.vocab_size = static_cast<int64_t>(h.vocab_size);
  info.token_count = static_cast<int64_t>(h.token_count);
  info.document_count = static_cast<int64_t>(h.document_count);
  info.text_bytes = static_cast<int64_t>(h.text_bytes);
  info.content_hash = h.content_hash;
  info.tokenizer = h.tokenizer;
  return info;
}

Header make_header(const ShardInfo& info) {
  Header h{};
  std::memcpy(h.magic, kMagic, sizeof(kMagic));
  h.version = kVersion;
  h.token_bytes = static_cast<uint32_t>(info.token_bytes);
  h.vocab_size = static_cast<uint64_t>(info.vocab_size);
  h.token_count = static_cast<uint64_t>(info.token_count);
  h.document_count = static_cast<uint64_t>(info.document_count);
  h.text_bytes = static_cast<uint64_t>(info.text_bytes);
  h.content_hash = info.content_hash;
  std::memcpy(h.tokenizer, info.tokenizer.data(), info.tokenizer.size());
  h.header_hash = header_hash(h);
  return h;
}

template <class Stored>
void narrow(std::span<const int32_t> tokens, char* out) {
  for (size_t i = 0; i < tokens.size(); ++i) {
    const auto token = static_cast<Stored>(tokens[i]);
    std::memcpy(out + i * sizeof(Stored), &token, sizeof(Stored));
  }
}

/// Copies `out.size()` stored tokens and returns the largest.
template <class Stored>
uint32_t widen(const std::byte* in, std::span<int32_t> out) {
  const auto* tokens =
      reinterpret_cast<const Stored*>(in);  // aligned: the header is a multiple of 8, mappings are pages
  uint32_t largest = 0;
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = static_cast<int32_t>(tokens[i]);
    largest = std::max<uint32_t>(largest, tokens[i]);
  }
  return largest;
}

}  // namespace

struct ShardWriter::Hash {
  Hash() : state(XXH3_createState()) {
    TITAN_CHECK(state != nullptr);
    XXH3_64bits_reset(state);
  }
  ~Hash() { XXH3_freeState(state); }
  Hash(const Hash&) = delete;
  Hash& operator=(const Hash&) = delete;
  XXH3_state_t* state;
};

ShardWriter::ShardWriter(fs::path path, int64_t vocab_size, std::string tokenizer_fingerprint)
    : file_(std::make_unique<FileWriter>(std::move(path))), hash_(std::make_unique<Hash>()) {
  TITAN_CHECK(vocab_size >= 1 && vocab_size <= kMaxVocab, "vocab_size = {}", vocab_size);
  TITAN_CHECK_LT(tokenizer_fingerprint.size(), kFingerprintBytes);
  info_.vocab_size = vocab_size;
  info_.token_bytes = token_bytes_for(vocab_size);
  info_.tokenizer = std::move(tokenizer_fingerprint);
  const Header unfinished{};
  file_->append(&unfinished, sizeof(unfinished));
}

ShardWriter::~ShardWriter() = default;

void ShardWriter::write(const void* bytes, size_t size) {
  XXH3_64bits_update(hash_->state, bytes, size);
  file_->append(bytes, size);
}

void ShardWriter::append(std::span<const int32_t> tokens, std::span<const int64_t> document_starts,
                         int64_t text_bytes) {
  for (const int32_t token : tokens) TITAN_CHECK(token >= 0 && token < info_.vocab_size, "token {}", token);
  narrow_.resize(tokens.size() * static_cast<size_t>(info_.token_bytes));
  if (info_.token_bytes == 2)
    narrow<uint16_t>(tokens, narrow_.data());
  else
    narrow<uint32_t>(tokens, narrow_.data());
  write(narrow_.data(), narrow_.size());
  for (const int64_t start : document_starts)
    starts_.push_back(static_cast<uint64_t>(info_.token_count + start));
  info_.token_count += static_cast<int64_t>(tokens.size());
  info_.document_count += static_cast<int64_t>(document_starts.size());
  info_.text_bytes += text_bytes;
}

ShardInfo ShardWriter::finish() {
  const int64_t token_bytes = info_.token_count * info_.token_bytes;
  constexpr char kZeros[8] = {};
  write(kZeros, static_cast<size_t>(padded_token_bytes(info_.token_count, info_.token_bytes) - token_bytes));
  write(starts_.data(), starts_.size() * sizeof(uint64_t));
  info_.content_hash = XXH3_64bits_digest(hash_->state);
  const Header header = make_header(info_);
  file_->overwrite(0, &header, sizeof(header));
  file_->commit();
  return info_;
}

TokenShard::TokenShard(fs::path path) : path_(std::move(path)), file_(std::make_unique<MappedFile>(path_)) {
  info_ = check_header(path_, file_->bytes());
  tokens_ = file_->bytes().data() + kShardHeaderBytes;
  starts_ = tokens_ + padded_token_bytes(info_.token_count, info_.token_bytes);
}

TokenShard::~TokenShard() = default;
TokenShard::TokenShard(TokenShard&&) noexcept = default;

void TokenShard::read(int64_t begin, std::span<int32_t> out) const {
  TITAN_CHECK(begin >= 0 && begin <= info_.token_count);
  TITAN_CHECK_LE(static_cast<int64_t>(out.size()), info_.token_count - begin);
  const std::byte* in = tokens_ + begin * info_.token_bytes;
  const uint32_t largest = info_.token_bytes == 2 ? widen<uint16_t>(in, out) : widen<uint32_t>(in, out);
  if (largest >= info_.vocab_size) {
    fail(path_, in - file_->bytes().data(),
         fmt::format("token {} among the next {}, the vocabulary has {}", largest, out.size(),
                     info_.vocab_size));
  }
}

uint64_t TokenShard::start(int64_t document) const {
  uint64_t start;
  std::memcpy(&start, starts_ + document * static_cast<int64_t>(sizeof(start)), sizeof(start));
  return start;
}

void TokenShard::document_starts(int64_t begin, int64_t end, int64_t offset,
                                 std::vector<int64_t>& out) const {
  int64_t low = 0, high = info_.document_count;  // the first document with start >= begin lies in [low, high]
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (start(middle) < static_cast<uint64_t>(begin))
      low = middle + 1;
    else
      high = middle;
  }
  int64_t previous = begin - 1;
  for (; low < info_.document_count && start(low) < static_cast<uint64_t>(end); ++low) {
    const auto position = static_cast<int64_t>(start(low));
    if (position <= previous) {
      fail(path_, starts_ + low * 8 - file_->bytes().data(),
           fmt::format("document {} starts at token {}, not after {}", low, position, previous));
    }
    out.push_back(position + offset);
    previous = position;
  }
}

void TokenShard::verify() const {
  const std::span<const std::byte> content = file_->bytes().subspan(kShardHeaderBytes);
  const uint64_t hash = XXH3_64bits(content.data(), content.size());
  if (hash != info_.content_hash) {
    fail(path_, kShardHeaderBytes,
         fmt::format("content hash {:016x}, the header says {:016x}", hash, info_.content_hash));
  }
  std::vector<int64_t> starts;
  document_starts(0, info_.token_count, 0, starts);
  if (static_cast<int64_t>(starts.size()) != info_.document_count) {
    fail(path_, starts_ - file_->bytes().data(),
         fmt::format("{} of {} document starts lie in the {} tokens", starts.size(), info_.document_count,
                     info_.token_count));
  }
}

ShardInfo read_shard_info(const fs::path& path) { return TokenShard(path).info(); }

}  // namespace titan
