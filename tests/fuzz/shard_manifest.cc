// manifest.json of a folder with two token shards.
#include "engine/data/manifest.h"

#include "engine/data/prepare.h"
#include "engine/data/token_dataset.h"
#include "engine/tokenizer/tokenizer.h"
#include "tests/engine/data/data_files.h"
#include "tests/fuzz/fuzz.h"

using namespace titan;
using namespace titan::fuzz;

namespace {

bool same(const ShardManifest& a, const ShardManifest& b) {
  const auto equal = [](const ShardManifest::Shard& x, const ShardManifest::Shard& y) {
    return x.file == y.file && x.tokens == y.tokens && x.documents == y.documents &&
           x.text_bytes == y.text_bytes && x.content_hash == y.content_hash;
  };
  return a.chunks == b.chunks &&
         std::equal(a.shards.begin(), a.shards.end(), b.shards.begin(), b.shards.end(), equal);
}

void write_shards() {
  for (const int shard : {0, 1}) {
    ShardWriter writer(folder() / fmt::format("shard-0000{}.tokens", shard), 258, "byte-v1");
    writer.append(std::vector<int32_t>{256, 'a', 'b', 257}, std::vector<int64_t>{0}, 2 + shard);
    writer.finish();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const bool written = (write_shards(), true);
  FUZZ_CHECK(written);
  const std::filesystem::path path = put(kManifestFile, text_of(data, size));
  if (const std::optional<ShardManifest> manifest = read_shard_manifest(path)) {
    FUZZ_CHECK(manifest->tokens() >= 0 && manifest->documents() >= 0 && manifest->text_bytes() >= 0);
    write_shard_manifest(path, *manifest);
    const std::optional<ShardManifest> again = read_shard_manifest(path);
    FUZZ_CHECK(again && same(*manifest, *again));
  }
  put(kManifestFile, text_of(data, size));
  accepted([&] {
    const auto tokenizer = make_byte_tokenizer();
    const PreparedData prepared =
        prepare_data({folder().string()}, *tokenizer, {.cache_dir = folder() / "cache"});
    FUZZ_CHECK(prepared.tokens > 0 &&
               TokenDataset(prepared.shards, 3, false).token_count() == prepared.tokens);
  });
  return 0;
}
