#include "engine/data/import.h"

#include "engine/data/manifest.h"
#include "engine/data/shard_sequence.h"
#include "engine/io/file.h"
#include "engine/tokenizer/tokenizer.h"
#include "kernels/base/error.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <string_view>

namespace titan {

namespace fs = std::filesystem;

namespace {

using Bytes = std::span<const std::byte>;

constexpr size_t kLlmcHeaderBytes = 256 * sizeof(int32_t);
constexpr std::string_view kMegatronMagic("MMIDIDX\0\0", 9);
constexpr size_t kPieceTokens = size_t{1} << 20;

template <class T>
T load(Bytes bytes, size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof(value));
  return value;
}

[[noreturn]] void fail(const fs::path& path, size_t offset, const std::string& what) {
  throw UserError(fmt::format("{}: byte {}: {}", path.string(), offset, what));
}

struct TokenType {
  int bytes;
  bool is_signed;
};

/// Megatron's numbers of NumPy types; nothing for those that hold no ids.
std::optional<TokenType> megatron_type(int code) {
  switch (code) {
    case 1:
      return TokenType{1, false};
    case 2:
      return TokenType{1, true};
    case 3:
      return TokenType{2, true};
    case 4:
      return TokenType{4, true};
    case 5:
      return TokenType{8, true};
    case 8:
      return TokenType{2, false};
    default:
      return std::nullopt;
  }
}

int64_t token_at(Bytes bytes, size_t at, TokenType type) {
  switch (type.bytes) {
    case 1:
      return type.is_signed ? int64_t{load<int8_t>(bytes, at)} : int64_t{load<uint8_t>(bytes, at)};
    case 2:
      return type.is_signed ? int64_t{load<int16_t>(bytes, at)} : int64_t{load<uint16_t>(bytes, at)};
    case 4:
      return type.is_signed ? int64_t{load<int32_t>(bytes, at)} : int64_t{load<uint32_t>(bytes, at)};
    default:
      return load<int64_t>(bytes, at);
  }
}

/// Checks ids and hands them to the shards in pieces.
class Importer {
 public:
  Importer(ShardSequence& shards, int64_t vocab_size, const ImportOptions& options)
      : shards_(shards), vocab_size_(vocab_size), options_(options) {}

  /// `count` tokens at `offset` of `file`, which must hold them. With `marked`, documents begin at the ids of
  /// the options, otherwise only where begin_document says.
  void add(const fs::path& path, Bytes file, size_t offset, size_t count, TokenType type, bool marked) {
    for (size_t i = 0; i < count; ++i) {
      const size_t at = offset + i * static_cast<size_t>(type.bytes);
      const int64_t id = token_at(file, at, type);
      if (id < 0 || id >= vocab_size_) {
        fail(path, at,
             fmt::format("the id {} is outside the vocabulary of {}: the tokens were made with another "
                         "tokenizer, or are in another format (--format)",
                         id, vocab_size_));
      }
      if (begins_ || (marked && options_.begin_id == id))
        starts_.push_back(static_cast<int64_t>(tokens_.size()));
      begins_ = marked && options_.end_id == id;
      tokens_.push_back(static_cast<int32_t>(id));
      if (tokens_.size() == kPieceTokens) flush();
    }
  }

  /// The next token is a document's first.
  void begin_document() { begins_ = true; }

  void flush() {
    if (tokens_.empty()) return;
    shards_.append(tokens_, starts_, 0);
    tokens_.clear();
    starts_.clear();
  }

 private:
  ShardSequence& shards_;
  int64_t vocab_size_;
  const ImportOptions& options_;
  bool begins_ = true;
  std::vector<int32_t> tokens_;
  std::vector<int64_t> starts_;
};

struct LlmcFormat {
  int32_t magic, version;
  TokenType type;
};
constexpr LlmcFormat kLlmcFormats[] = {{20240520, 1, {2, false}}, {20240801, 7, {4, false}}};

bool is_llm_c(Bytes file) {
  if (file.size() < sizeof(int32_t)) return false;
  const auto magic = load<int32_t>(file, 0);
  return std::any_of(std::begin(kLlmcFormats), std::end(kLlmcFormats),
                     [&](const LlmcFormat& format) { return format.magic == magic; });
}

void import_llm_c(const fs::path& path, Bytes file, Importer& out) {
  if (file.size() < kLlmcHeaderBytes) {
    fail(path, 0, fmt::format("{} bytes, shorter than llm.c's header of {}", file.size(), kLlmcHeaderBytes));
  }
  const auto magic = load<int32_t>(file, 0), version = load<int32_t>(file, 4), count = load<int32_t>(file, 8);
  const auto* format =
      std::find_if(std::begin(kLlmcFormats), std::end(kLlmcFormats),
                   [&](const LlmcFormat& f) { return f.magic == magic && f.version == version; });
  if (format == std::end(kLlmcFormats)) {
    fail(path, 0,
         fmt::format("llm.c's magic {} with version {}; 20240520 with version 1 (uint16) and 20240801 with "
                     "version 7 (uint32) are read",
                     magic, version));
  }
  const size_t content = file.size() - kLlmcHeaderBytes;
  const auto width = static_cast<size_t>(format->type.bytes);
  if (count < 1 || content != static_cast<size_t>(count) * width) {
    fail(path, 8,
         fmt::format("the header names {} tokens of {} bytes, {} bytes follow it; the file was cut or is "
                     "damaged: make it again",
                     count, width, content));
  }
  out.begin_document();
  out.add(path, file, kLlmcHeaderBytes, static_cast<size_t>(count), format->type, true);
}

void import_nano_gpt(const fs::path& path, Bytes file, Importer& out) {
  if (file.size() % 2 != 0) {
    fail(path, file.size() - 1,
         fmt::format("{} bytes is no whole number of uint16 tokens; the file was cut or is in another format",
                     file.size()));
  }
  out.begin_document();
  out.add(path, file, 0, file.size() / 2, {2, false}, true);
}

fs::path index_of(const fs::path& bin) { return fs::path(bin).replace_extension(".idx"); }

/// The three tables of a Megatron index, proven to lie inside the file.
struct MegatronIndex {
  fs::path path;
  MappedFile file;
  TokenType type{};
  size_t sequences = 0, documents = 0;
  size_t lengths = 0, offsets = 0, firsts = 0;  // where the tables begin

  explicit MegatronIndex(fs::path index) : path(std::move(index)), file(path) {
    constexpr size_t kHeader = 9 + 8 + 1 + 8 + 8;
    const Bytes bytes = file.bytes();
    const std::string_view start(reinterpret_cast<const char*>(bytes.data()),
                                 std::min<size_t>(bytes.size(), 9));
    if (start != kMegatronMagic) fail(path, 0, "no MMIDIDX of Megatron's index");
    if (bytes.size() < kHeader)
      fail(path, 0, fmt::format("{} bytes, shorter than the header of {}", bytes.size(), kHeader));
    if (const auto version = load<uint64_t>(bytes, 9); version != 1)
      fail(path, 9, fmt::format("version {} of the index; only 1 is read", version));
    const int code = load<uint8_t>(bytes, 17);
    const std::optional<TokenType> known = megatron_type(code);
    if (!known) fail(path, 17, fmt::format("type {} holds no token ids; integers do", code));
    type = *known;
    const auto all = load<uint64_t>(bytes, 18), bounds = load<uint64_t>(bytes, 26);
    const uint64_t rest = bytes.size() - kHeader;
    if (all < 1 || all > rest / 12)
      fail(path, 18, fmt::format("{} sequences in an index of {} bytes", all, bytes.size()));
    if (bounds < 2 || bounds > (rest - all * 12) / 8)
      fail(path, 26, fmt::format("{} bounds of documents in an index of {} bytes", bounds, bytes.size()));
    sequences = all;
    documents = bounds - 1;
    lengths = kHeader;
    offsets = lengths + 4 * sequences;
    firsts = offsets + 8 * sequences;
    if (first(0) != 0 || first(documents) != static_cast<int64_t>(sequences)) {
      fail(path, firsts,
           fmt::format("documents are sequences {} to {} of {}; they must be all", first(0), first(documents),
                       sequences));
    }
  }
  int64_t first(size_t document) const { return load<int64_t>(file.bytes(), firsts + 8 * document); }
};

void import_megatron(const fs::path& path, Bytes file, Importer& out) {
  const MegatronIndex index(index_of(path));
  const Bytes bytes = index.file.bytes();
  size_t document = 0;
  for (size_t i = 0; i < index.sequences; ++i) {
    const size_t before = document;
    while (document < index.documents && index.first(document) == static_cast<int64_t>(i)) ++document;
    if (document > before) out.begin_document();
    const auto length = load<int32_t>(bytes, index.lengths + 4 * i);
    const auto offset = load<int64_t>(bytes, index.offsets + 8 * i);
    const auto width = static_cast<size_t>(index.type.bytes);
    if (length < 0 || offset < 0 || static_cast<size_t>(offset) > file.size() ||
        static_cast<size_t>(length) > (file.size() - static_cast<size_t>(offset)) / width) {
      fail(index.path, index.offsets + 8 * i,
           fmt::format(
               "sequence {} is {} tokens of {} bytes at byte {}, {} has {} bytes; the index belongs to "
               "another file, or one of them was cut",
               i, length, width, offset, path.string(), file.size()));
    }
    out.add(path, file, static_cast<size_t>(offset), static_cast<size_t>(length), index.type, false);
  }
  if (document < index.documents) {
    fail(index.path, index.firsts + 8 * document,
         fmt::format("document {} begins with sequence {}, not in ascending order", document,
                     index.first(document)));
  }
}

TokenFormat detect(const fs::path& path, Bytes file) {
  if (is_llm_c(file)) return TokenFormat::llm_c;
  if (path_exists(index_of(path))) return TokenFormat::megatron;
  throw UserError(
      fmt::format("{}: neither llm.c's magic in it nor Megatron's {} beside it; if it is nanoGPT's, uint16 "
                  "tokens and nothing else, say --format=nanogpt",
                  path.string(), index_of(path).filename().string()));
}

void import_file(const fs::path& path, TokenFormat format, Importer& out) {
  const MappedFile file(path);
  if (file.bytes().empty()) throw UserError(fmt::format("{} is empty (0 bytes)", path.string()));
  if (format == TokenFormat::detect) format = detect(path, file.bytes());
  if (format == TokenFormat::llm_c) import_llm_c(path, file.bytes(), out);
  if (format == TokenFormat::nano_gpt) import_nano_gpt(path, file.bytes(), out);
  if (format == TokenFormat::megatron) import_megatron(path, file.bytes(), out);
}

std::vector<fs::path> bin_files(const std::string& input) {
  std::vector<fs::path> files;
  if (fs::is_directory(input)) {
    for (const fs::directory_entry& entry : fs::directory_iterator(input))
      if (entry.path().extension() == ".bin") files.push_back(entry.path());
    std::sort(files.begin(), files.end());
  } else if (path_exists(input)) {
    if (!fs::is_regular_file(input) || fs::path(input).extension() != ".bin")
      throw UserError(fmt::format("{} is no .bin file of tokens", input));
    files.emplace_back(input);
  } else {
    files = matching_paths(input);
    if (files.empty()) throw UserError(fmt::format("{} does not exist; check the path", input));
  }
  if (files.empty()) throw UserError(fmt::format("{}: the folder holds no .bin file", input));
  return files;
}

/// Makes `folder` an unfinished one, without shards.
void start_over(const fs::path& folder) {
  create_folder(folder);
  const bool ours = path_exists(folder / kManifestFile) || path_exists(folder / kProgressFile);
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (!ours && entry.path().extension() == kShardSuffix) {
      throw UserError(
          fmt::format("{} was not made by an import or a preparation into {}; choose another --output",
                      entry.path().string(), folder.string()));
    }
  }
  write_shard_manifest(folder / kProgressFile, {});
  clean_shard_folder(folder);
}

}  // namespace

ImportedData import_tokens(const std::vector<std::string>& inputs, const Tokenizer& tokenizer,
                           const fs::path& folder, const ImportOptions& given) {
  TITAN_CHECK(given.max_shard_tokens > 0);
  ImportOptions options = given;
  if (!options.begin_id && !options.end_id) {
    options.begin_id = tokenizer.bos();
    if (!options.begin_id) options.end_id = tokenizer.eos();
  }
  const int64_t vocab_size = options.vocab_size.value_or(tokenizer.vocab_size());
  if (vocab_size > tokenizer.vocab_size()) {
    throw UserError(fmt::format(
        "a vocabulary of {} does not fit the tokenizer, which has {} ids; name the tokenizer the tokens were "
        "made with",
        vocab_size, tokenizer.vocab_size()));
  }
  std::vector<fs::path> files;
  for (const std::string& input : inputs) {
    const std::vector<fs::path> found = bin_files(input);
    files.insert(files.end(), found.begin(), found.end());
  }
  create_folder(folder);
  const FileLock lock(folder / "lock");
  start_over(folder);
  ShardSequence shards(folder, tokenizer, options.max_shard_tokens, {});
  Importer importer(shards, vocab_size, options);
  for (const fs::path& file : files) import_file(file, options.format, importer);
  importer.flush();
  const ShardManifest& all = shards.finish();
  if (all.tokens() == 0) throw UserError(fmt::format("{}: no token in the data", files.front().string()));
  write_shard_manifest(folder / kManifestFile, all);
  return {all.tokens(), all.documents(), static_cast<int64_t>(all.shards.size())};
}

}  // namespace titan
