#include "engine/checkpoint/blocks.h"

#include "kernels/base/error.h"

#include <fmt/ranges.h>
#include <xxhash.h>

#include <algorithm>

namespace titan {
namespace {

constexpr size_t kNamedTensors = 4;

std::string tensors_in(const StoredFile& stored, int64_t begin, int64_t end) {
  std::vector<std::string> names;
  size_t count = 0;
  for (const StoredTensor& tensor : stored.tensors)
    if (tensor.offset < end && tensor.offset + tensor.bytes() > begin && ++count <= kNamedTensors)
      names.push_back(tensor_name(tensor.piece, tensor.kind));
  if (count > kNamedTensors) names.push_back(fmt::format("{} more", count - kNamedTensors));
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

uint64_t hash_bytes(std::span<const std::byte> bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

void BlockHasher::FreeState::operator()(XXH3_state_s* state) const { XXH3_freeState(state); }

BlockHasher::BlockHasher(int64_t block_bytes) : state_(XXH3_createState()), block_bytes_(block_bytes) {
  TITAN_CHECK(state_ != nullptr);
  XXH3_64bits_reset(state_.get());
}

BlockHasher::~BlockHasher() = default;

void BlockHasher::update(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const auto count = std::min(bytes.size(), static_cast<size_t>(block_bytes_ - filled_));
    XXH3_64bits_update(state_.get(), bytes.data(), count);
    bytes = bytes.subspan(count);
    filled_ += static_cast<int64_t>(count);
    if (filled_ == block_bytes_) end_block();
  }
}

void BlockHasher::end_block() {
  hashes_.push_back(XXH3_64bits_digest(state_.get()));
  XXH3_64bits_reset(state_.get());
  filled_ = 0;
}

std::vector<uint64_t> BlockHasher::finish() {
  if (filled_ > 0) end_block();
  return std::move(hashes_);
}

InputFile open_stored(const std::filesystem::path& checkpoint, const StoredFile& stored) {
  try {
    return InputFile(checkpoint / stored.name);
  } catch (const UserError& error) {
    throw DamagedCheckpoint(error.what());
  }
}

void check_size(const InputFile& file, const StoredFile& stored) {
  if (file.size() != stored.size())
    throw DamagedCheckpoint(fmt::format("{} is damaged: it has {} bytes, {} were saved", file.path().string(),
                                        file.size(), stored.size()));
}

void check_header(const InputFile& file, const StoredFile& stored) {
  std::vector<std::byte> header(static_cast<size_t>(stored.data_begin));
  file.read(0, header);
  if (hash_bytes(header) != stored.header_hash)
    throw DamagedCheckpoint(
        fmt::format("{} is damaged: the hash of its header ({} bytes) is {:016x}, {:016x} was saved",
                    file.path().string(), header.size(), hash_bytes(header), stored.header_hash));
}

void read_block(const InputFile& file, const StoredFile& stored, int64_t index,
                std::vector<std::byte>& buffer) {
  const int64_t begin = index * stored.block_bytes;
  const int64_t end = std::min(begin + stored.block_bytes, stored.data_bytes);
  buffer.resize(static_cast<size_t>(end - begin));
  file.read(stored.data_begin + begin, buffer);
  const uint64_t hash = hash_bytes(buffer), saved = stored.block_hashes[static_cast<size_t>(index)];
  if (hash != saved)
    throw DamagedCheckpoint(fmt::format(
        "{} is damaged: the hash of block {} (bytes {} to {}) is {:016x}, {:016x} was saved; it touches {}",
        file.path().string(), index, stored.data_begin + begin, stored.data_begin + end, hash, saved,
        tensors_in(stored, begin, end)));
}

}  // namespace titan
