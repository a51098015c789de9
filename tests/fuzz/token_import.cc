// The token files of other programs. Parts of the input, by '|': the .bin and, if there is one, Megatron's
// .idx.
#include "engine/data/import.h"

#include <algorithm>

#include "engine/data/prepared_shards.h"
#include "engine/data/token_shard.h"
#include "engine/tokenizer/tokenizer.h"
#include "tests/fuzz/fuzz.h"

using namespace titan;
using namespace titan::fuzz;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input = text_of(data, size);
  const size_t bar = std::min(input.find('|'), input.size());
  const std::filesystem::path bin = put("a.bin", input.substr(0, bar));
  std::filesystem::remove(folder() / "a.idx");
  if (bar < input.size()) put("a.idx", input.substr(bar + 1));

  const std::unique_ptr<Tokenizer> tokenizer = make_byte_tokenizer();
  const std::filesystem::path out = folder() / "imported";
  for (const TokenFormat format : {TokenFormat::detect, TokenFormat::nano_gpt}) {
    // Overlapping sequences of an index can name far more tokens than the file has.
    ImportedData imported;
    if (!accepted([&] {
          imported =
              import_tokens({bin.string()}, *tokenizer, out, {.format = format, .max_shard_tokens = 64});
        }))
      continue;
    const PreparedData opened = open_shards(find_shards({out.string()}), *tokenizer);
    FUZZ_CHECK(opened.tokens == imported.tokens && opened.documents == imported.documents);
    for (const std::filesystem::path& path : opened.shards) TokenShard(path).verify();
  }
  return 0;
}
