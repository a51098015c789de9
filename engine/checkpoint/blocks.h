// Hashes of 16 MiB blocks, so that a partial read is verified too. XXH3-64 finds accidents, not attackers.
#pragma once

#include "engine/checkpoint/manifest.h"
#include "engine/io/file.h"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

struct XXH3_state_s;

namespace titan {

uint64_t hash_bytes(std::span<const std::byte> bytes);

/// Hashes a stream block by block.
class BlockHasher {
 public:
  explicit BlockHasher(int64_t block_bytes);
  ~BlockHasher();
  void update(std::span<const std::byte> bytes);
  std::vector<uint64_t> finish();  ///< the last block may be shorter

 private:
  void end_block();
  struct FreeState {
    void operator()(XXH3_state_s* state) const;
  };
  std::unique_ptr<XXH3_state_s, FreeState> state_;
  int64_t block_bytes_;
  int64_t filled_ = 0;
  std::vector<uint64_t> hashes_;
};

/// The three checks of a stored file; each throws DamagedCheckpoint with the file and the values.
void check_size(const InputFile& file, const StoredFile& stored);
void check_header(const InputFile& file, const StoredFile& stored);
/// Reads block `index` into `buffer` (resized) and checks it; names the tensors that a bad block touches.
void read_block(const InputFile& file, const StoredFile& stored, int64_t index,
                std::vector<std::byte>& buffer);

/// Opens a file of a checkpoint; an absent one is damage.
InputFile open_stored(const std::filesystem::path& checkpoint, const StoredFile& stored);

}  // namespace titan
