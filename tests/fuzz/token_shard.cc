// A token shard as it is, and with the hashes in its header made right, as only a wrong program would make
// it.
#include "engine/data/token_shard.h"

#include <xxhash.h>

#include <algorithm>
#include <cstring>

#include "engine/data/token_dataset.h"
#include "tests/fuzz/fuzz.h"

using namespace titan;
using namespace titan::fuzz;

namespace {

constexpr size_t kContentHash = 48, kHeaderHash = 152;

std::string seal(std::string bytes) {
  if (bytes.size() < static_cast<size_t>(kShardHeaderBytes)) return bytes;
  const auto put_hash = [&](size_t at, uint64_t hash) {
    std::memcpy(bytes.data() + at, &hash, sizeof(hash));
  };
  put_hash(kContentHash, XXH3_64bits(bytes.data() + kShardHeaderBytes, bytes.size() - kShardHeaderBytes));
  put_hash(kHeaderHash, XXH3_64bits(bytes.data(), kHeaderHash));
  return bytes;
}

struct Content {
  std::vector<int32_t> tokens;
  std::vector<int64_t> starts;
  bool operator==(const Content&) const = default;
};

Content read(const TokenShard& shard) {
  Content content;
  content.tokens.resize(static_cast<size_t>(shard.info().token_count));
  shard.read(0, content.tokens);
  shard.document_starts(0, shard.info().token_count, 0, content.starts);
  return content;
}

void use(const std::filesystem::path& path) {
  Content content;
  ShardInfo info;
  const bool valid = accepted([&] {
    const TokenShard shard(path);
    info = shard.info();
    content = read(shard);
    shard.verify();
  });
  if (!valid) return;
  for (const int32_t token : content.tokens) FUZZ_CHECK(token >= 0 && token < info.vocab_size);
  for (const int64_t start : content.starts) FUZZ_CHECK(start >= 0 && start < info.token_count);

  const std::filesystem::path copy = folder() / "copy.tokens";
  ShardWriter writer(copy, info.vocab_size, info.tokenizer);
  writer.append(content.tokens, content.starts, info.text_bytes);
  writer.finish();
  FUZZ_CHECK(read(TokenShard(copy)) == content);

  accepted([&] {
    const TokenDataset dataset({path, copy}, 3, true);
    std::vector<int32_t> rows(12);
    const std::span<int32_t> all(rows);
    for (int64_t window = 0; window < std::min<int64_t>(dataset.windows(), 50); ++window)
      dataset.read_window(window,
                          {all.subspan(0, 3), all.subspan(3, 3), all.subspan(6, 3), all.subspan(9, 3)});
  });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input = text_of(data, size);
  use(put("a.tokens", input));
  use(put("a.tokens", seal(std::string(input))));
  return 0;
}
