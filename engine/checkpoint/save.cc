#include "engine/checkpoint/save.h"

#include "engine/checkpoint/agreement.h"
#include "engine/checkpoint/blocks.h"
#include "engine/checkpoint/catalog.h"
#include "engine/checkpoint/safetensors.h"
#include "kernels/base/error.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstring>
#include <ctime>
#include <numeric>

namespace titan {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr int64_t kChunkElements = int64_t{1} << 20;  // of one write
constexpr int64_t kManifestReserve = int64_t{1} << 20;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[32];
  std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}

fs::path staging_path(const fs::path& folder, int64_t step) {
  return checkpoint_path(folder, step).string() + ".tmp";
}

/// The tensors of the snapshot that this save keeps.
std::vector<StateTensor> kept(const Snapshot& snapshot, const SaveOptions& options) {
  std::vector<StateTensor> tensors;
  for (const StateTensor& tensor : snapshot.tensors) {
    const std::string fault = find_fault(tensor.piece);
    TITAN_CHECK(fault.empty(), "{}: {}", to_string(tensor.piece), fault);
    const bool wanted = tensor.kind == StateKind::parameter || !options.model_only;
    if (wanted && tensor.piece.elements() > 0) tensors.push_back(tensor);
  }
  return tensors;
}

int64_t predicted_bytes(const std::vector<StateTensor>& tensors, const SaveOptions& options) {
  constexpr int64_t kHeaderBytesPerTensor = 256;
  int64_t bytes = 0;
  for (const StateTensor& tensor : tensors)
    bytes += tensor.piece.elements() * size_of(options.type) + kHeaderBytesPerTensor;
  return bytes;
}

TensorEntry describe(const StateTensor& tensor, StoredType type) {
  const Piece& piece = tensor.piece;
  return {tensor_name(piece, tensor.kind), type,
          covers_box(piece) ? piece.box.size : std::vector<int64_t>{piece.elements()}, 0, 0};
}

/// Elements [begin, begin + count) of a tensor: where they are, or read into `buffer`.
std::span<const float> elements(const StateTensor& tensor, int64_t begin, int64_t count,
                                std::vector<float>& buffer) {
  if (tensor.data != nullptr) return {tensor.data + begin, static_cast<size_t>(count)};
  TITAN_CHECK(tensor.read, "{} has no elements", tensor.piece.parameter);
  buffer.resize(static_cast<size_t>(count));
  tensor.read(begin, buffer);
  return buffer;
}

/// `values` as they are stored: themselves, or encoded into `buffer`.
std::span<const std::byte> stored_bytes(StoredType type, std::span<const float> values,
                                        std::vector<std::byte>& buffer) {
  if (type == StoredType::f32) return std::as_bytes(values);
  buffer.resize(values.size() * static_cast<size_t>(size_of(type)));
  encode(type, values, buffer.data());
  return buffer;
}

/// Streams this rank's tensors into its file and hashes them on the way.
StoredFile write_rank_file(const fs::path& folder, int rank, const std::vector<StateTensor>& tensors,
                           int64_t step, const SaveOptions& options) {
  StoredFile stored;
  stored.name = fmt::format("rank-{}.safetensors", rank);
  stored.block_bytes = options.block_bytes;

  std::vector<TensorEntry> entries;
  for (const StateTensor& tensor : tensors) entries.push_back(describe(tensor, options.type));
  SafetensorsWriter writer(folder / stored.name, std::move(entries),
                           {{"format", "titan"}, {"step", std::to_string(step)}}, options.hook);
  BlockHasher hasher(options.block_bytes);
  std::vector<std::byte> buffer;
  std::vector<float> values;
  for (const StateTensor& tensor : tensors) {
    for (int64_t done = 0; done < tensor.piece.elements(); done += kChunkElements) {
      const int64_t count = std::min(kChunkElements, tensor.piece.elements() - done);
      const auto bytes = stored_bytes(options.type, elements(tensor, done, count, values), buffer);
      hasher.update(bytes);
      writer.write(bytes);
    }
  }
  writer.finish();

  stored.data_begin = static_cast<int64_t>(writer.header().size());
  stored.header_hash = hash_bytes(std::as_bytes(std::span(writer.header())));
  stored.block_hashes = hasher.finish();
  for (size_t i = 0; i < tensors.size(); ++i) {
    stored.tensors.push_back({tensors[i].piece, tensors[i].kind, options.type, writer.tensors()[i].offset});
    stored.data_bytes += writer.tensors()[i].bytes;
  }
  return stored;
}

void check_space(const fs::path& folder, int64_t step, int64_t needed) {
  const int64_t available = free_bytes(folder);
  if (needed <= available) return;
  throw UserError(
      fmt::format("{}: step {} needs {:.1f} MiB, {:.1f} MiB are free; free some space there or lower "
                  "checkpoint.keep_latest_k (checkpoints already saved are untouched)",
                  folder.string(), step, needed / 1048576.0, available / 1048576.0));
}

/// Rank 0's part before the files: an empty staging folder, on a disk that has room.
void prepare(const fs::path& folder, int64_t step, const std::vector<std::string>& needs,
             const SaveOptions& options) {
  int64_t needed = kManifestReserve;
  for (const std::string& bytes : needs) needed += std::stoll(bytes);
  const fs::path staging = staging_path(folder, step);
  create_folder(folder, options.hook);
  if (path_exists(staging)) {
    spdlog::warn("removing {}, left by a save that did not finish", staging.string());
    remove_tree(staging, options.hook);
  }
  check_space(folder, step, needed);
  create_folder(staging, options.hook);
}

/// Rank 0's part after the files: the manifest, then the rename that makes it a checkpoint.
void commit(const fs::path& folder, const Manifest& manifest, const SaveOptions& options) {
  const fs::path staging = staging_path(folder, manifest.run.step);
  const std::string json = to_json(manifest);
  OutputFile file(staging / kManifestName, options.hook);
  file.write(std::as_bytes(std::span(json)));
  file.sync_and_close();
  sync_directory(staging, options.hook);
  rename_or_exchange(staging, checkpoint_path(folder, manifest.run.step), options.hook);
  sync_directory(folder, options.hook);
  if (path_exists(staging)) remove_tree(staging, options.hook);  // what the new one replaced
}

Manifest describe(const Snapshot& snapshot, const std::vector<std::string>& files, double seconds,
                  const SaveOptions& options) {
  Manifest manifest{TITAN_VERSION, utc_now(), seconds, options.model_only, snapshot.run, {}};
  for (const std::string& file : files) manifest.files.push_back(parse_stored_file(file));
  return manifest;
}

int64_t total_bytes(const Manifest& manifest) {
  return std::accumulate(manifest.files.begin(), manifest.files.end(), int64_t{0},
                         [](int64_t sum, const StoredFile& file) { return sum + file.size(); });
}

SaveResult save_together(const fs::path& folder, const Snapshot& snapshot, Coordinator& coordinator,
                         const SaveOptions& options) {
  const auto start = Clock::now();
  const int64_t step = snapshot.run.step;
  const bool first = coordinator.rank() == 0;
  const std::vector<StateTensor> tensors = kept(snapshot, options);
  const auto on_all = [&](const auto& work) { return run_on_all(coordinator, options.timeout, work); };

  const auto needs = on_all([&] { return std::to_string(predicted_bytes(tensors, options)); });
  on_all([&] {
    if (first) prepare(folder, step, needs, options);
    return std::string();
  });
  const auto files = on_all([&] {
    return to_json(write_rank_file(staging_path(folder, step), coordinator.rank(), tensors, step, options));
  });
  const auto sizes = on_all([&] {
    if (!first) return std::string();
    const Manifest manifest = describe(snapshot, files, seconds_since(start), options);
    commit(folder, manifest, options);
    return std::to_string(total_bytes(manifest));
  });
  const int64_t bytes = std::stoll(coordinator.broadcast(first ? sizes.front() : "", options.timeout));
  return {checkpoint_path(folder, step), bytes, seconds_since(start)};
}

}  // namespace

std::string describe(const SaveResult& saved) {
  const double mebibytes = static_cast<double>(saved.bytes) / 1048576.0;
  return fmt::format("{:.1f} MiB in {:.2f} s ({:.0f} MiB/s)", mebibytes, saved.seconds,
                     mebibytes / std::max(saved.seconds, 1e-9));
}

SaveResult save_checkpoint(const fs::path& folder, const Snapshot& snapshot, Coordinator& coordinator,
                           const SaveOptions& options) {
  try {
    const SaveResult result = save_together(folder, snapshot, coordinator, options);
    if (coordinator.rank() == 0)
      spdlog::info(
          "saved {}: {}{}", result.path.string(), describe(result),
          options.held_seconds ? fmt::format(", training held {:.2f} s", *options.held_seconds) : "");
    return result;
  } catch (...) {
    std::error_code ignored;  // a leftover is removed at the next start
    if (coordinator.rank() == 0) fs::remove_all(staging_path(folder, snapshot.run.step), ignored);
    throw;
  }
}

}  // namespace titan
