#include "engine/data/content_hash.h"

#include "engine/io/file.h"
#include "engine/io/json.h"
#include "kernels/base/error.h"

#include <sys/stat.h>
#include <xxhash.h>

#include <cerrno>
#include <fstream>
#include <iterator>
#include <memory>
#include <vector>

namespace titan {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

int64_t nanoseconds(const timespec& time) { return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec; }

std::string to_hex(XXH128_hash_t hash) { return fmt::format("{:016x}{:016x}", hash.high64, hash.low64); }

std::string hash_file(const fs::path& path, const std::function<void(int64_t)>& on_bytes) {
  constexpr size_t kBufferBytes = size_t{1} << 22;
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(XXH3_createState(), XXH3_freeState);
  TITAN_CHECK(state != nullptr);
  XXH3_128bits_reset(state.get());
  SequentialFile file(path);
  std::vector<char> buffer(kBufferBytes);
  while (const size_t got = file.read(buffer.data(), buffer.size())) {
    XXH3_128bits_update(state.get(), buffer.data(), got);
    on_bytes(static_cast<int64_t>(got));
  }
  return to_hex(XXH3_128bits_digest(state.get()));
}

}  // namespace

FileStamp stamp_of(const fs::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) throw_disk_error("read", path, errno);
  return {status.st_size, nanoseconds(status.st_mtim), nanoseconds(status.st_ctim), status.st_ino};
}

std::string hash_text(std::string_view text) { return to_hex(XXH3_128bits(text.data(), text.size())); }

ContentHashes::ContentHashes(fs::path file) : file_(std::move(file)) {
  std::ifstream in(file_);
  if (!in) return;
  const std::string text(std::istreambuf_iterator<char>(in), {});
  try {
    const json hashes = parse_json(text);
    for (const auto& [path, e] : hashes.items()) {
      const FileStamp stamp{whole_number(e.at("size")), whole_number(e.at("modified_ns")),
                            whole_number(e.at("changed_ns")), whole_number<uint64_t>(e.at("inode"))};
      entries_[path] = {stamp, e.at("hash")};
    }
  } catch (const json::exception&) {
    entries_.clear();
  } catch (const JsonError&) {
    entries_.clear();
  }
}

std::string ContentHashes::hash_of(const fs::path& path, const std::function<void(int64_t)>& on_bytes) {
  const FileStamp stamp = stamp_of(path);
  Entry& entry = entries_[fs::absolute(path).lexically_normal().string()];
  if (entry.stamp == stamp) {
    on_bytes(stamp.size);
    return entry.hash;
  }
  entry = {stamp, hash_file(path, on_bytes)};
  changed_ = true;
  if (stamp_of(path) != stamp) {
    throw UserError(
        fmt::format("{} changed while it was read; start again when it is complete", path.string()));
  }
  return entry.hash;
}

void ContentHashes::save() const {
  if (!changed_) return;
  json out = json::object();
  for (const auto& [path, e] : entries_) {
    out[path] = {{"size", e.stamp.size},
                 {"modified_ns", e.stamp.modified_ns},
                 {"changed_ns", e.stamp.changed_ns},
                 {"inode", e.stamp.inode},
                 {"hash", e.hash}};
  }
  write_file_atomically(file_, out.dump(1, ' ', false, json::error_handler_t::replace));
}

}  // namespace titan
