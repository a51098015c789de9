// Text -> token shards, once: the result lies in a cache folder named by what it was made from.
//
//   <cache>/hashes.json                   content hash of each file seen, with the size, times and inode it
//   was valid for <cache>/<key>/shard-00000.tokens ...  key = hash(contents of the files in order, tokenizer,
//   format version, options) <cache>/<key>/progress.json           shards finished so far; a later run goes
//   on after the last of them <cache>/<key>/manifest.json           written last: the folder is complete
//
// A file is hashed again only when its size, times or inode changed, so a second run starts at once.
// Every document becomes BOS + tokens + EOS, where the tokenizer has them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace titan {

class Tokenizer;

struct PrepareProgress {
  enum class Phase { hash, tokenize } phase = Phase::hash;
  int64_t bytes_done = 0;  ///< on-disk bytes of the inputs
  int64_t bytes_total = 0;
  int64_t tokens = 0;  ///< so far (phase tokenize)
  int64_t documents = 0;
};

struct PrepareOptions {
  std::filesystem::path cache_dir;
  int threads = 1;  ///< of tokenization; the shards do not depend on it
  int64_t max_shard_tokens = int64_t{1} << 28;
  std::function<void(const PrepareProgress&)> progress =
      {};  ///< called from the calling thread; may be empty
};

struct PreparedData {
  std::filesystem::path folder;               ///< of the cache; empty when the inputs are shards themselves
  std::vector<std::filesystem::path> shards;  ///< in order
  int64_t tokens = 0;
  int64_t documents = 0;
  int64_t text_bytes = 0;
  bool from_cache = false;                     ///< nothing had to be tokenized
  std::vector<std::filesystem::path> ignored;  ///< files in input folders that hold no text titan reads
};

/// Makes (or finds) the shards of `inputs`: text files, folders, globs; or token shards and folders of them,
/// which are only checked against the tokenizer. Processes that prepare the same data at once wait for the
/// first. A cache that this process cannot write is used where it holds the data. Throws UserError: see
/// expand_text_files, ByteReader, for_each_piece; disk full; a file that changed meanwhile.
PreparedData prepare_data(const std::vector<std::string>& inputs, const Tokenizer& tokenizer,
                          const PrepareOptions& options);

}  // namespace titan
