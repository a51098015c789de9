#include "engine/huggingface/export.h"

#include <algorithm>
#include <map>

#include "engine/checkpoint/safetensors.h"
#include "kernels/base/error.h"

namespace titan {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kChunkElements = std::size_t{1} << 20;

using Shard = std::vector<ParameterSpec>;

std::int64_t bytes_of(const ParameterSpec& p, StoredType type) { return p.rows * p.cols * size_of(type); }

/// In model order, each as full as it may be.
std::vector<Shard> shards_of(const ModelConfig& model, const ExportOptions& options) {
  std::vector<Shard> shards(1);
  std::int64_t filled = 0;
  for (const ParameterSpec& p : parameters(model)) {
    const std::int64_t bytes = bytes_of(p, options.type);
    if (filled > 0 && filled + bytes > options.max_shard_bytes) {
      shards.emplace_back();
      filled = 0;
    }
    shards.back().push_back(p);
    filled += bytes;
  }
  return shards;
}

std::string shard_name(std::size_t index, std::size_t count) {
  return count == 1 ? "model.safetensors" : fmt::format("model-{:05}-of-{:05}.safetensors", index + 1, count);
}

void write_shard(const fs::path& path, const Shard& shard, const ReadParameter& read,
                 const ExportOptions& options) {
  std::vector<TensorEntry> entries;
  for (const ParameterSpec& p : shard) entries.push_back({p.name, options.type, p.file_shape(), 0, 0});
  SafetensorsWriter writer(path, std::move(entries), {{"format", "pt"}}, options.hook);
  std::vector<float> values;
  std::vector<std::byte> encoded;
  for (const ParameterSpec& p : shard) {
    values.resize(static_cast<std::size_t>(p.rows * p.cols));
    read(p, values);
    for (std::span<const float> left = values; !left.empty();) {
      const auto chunk = left.first(std::min(left.size(), kChunkElements));
      encoded.resize(chunk.size() * static_cast<std::size_t>(size_of(options.type)));
      encode(options.type, chunk, encoded.data());
      writer.write(encoded);
      if (options.progress) options.progress(static_cast<std::int64_t>(encoded.size()));
      left = left.subspan(chunk.size());
    }
  }
  writer.finish();
}

void write_text(const fs::path& path, const std::string& text, const DiskHook& hook) {
  OutputFile file(path, hook);
  file.write(std::as_bytes(std::span(text)));
  file.sync_and_close();
}

void check_space(const fs::path& folder, std::int64_t needed) {
  const std::int64_t available = free_bytes(folder);
  if (needed > available)
    throw UserError(
        fmt::format("{}: the weights take {:.1f} MiB, {:.1f} MiB are free; free some space there or "
                    "export a smaller type",
                    folder.string(), static_cast<double>(needed) / 1048576.0,
                    static_cast<double>(available) / 1048576.0));
}

void write_all(const fs::path& folder, const ModelConfig& model, const std::vector<SmallFile>& texts,
               const ReadParameter& read, const ExportOptions& options) {
  const std::vector<Shard> shards = shards_of(model, options);
  std::map<std::string, std::string> index;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const std::string name = shard_name(i, shards.size());
    write_shard(folder / name, shards[i], read, options);
    for (const ParameterSpec& p : shards[i]) index[p.name] = name;
  }
  if (shards.size() > 1)
    write_text(folder / "model.safetensors.index.json",
               weight_index_json(index, exported_bytes(model, options.type)), options.hook);
  for (const SmallFile& text : texts) write_text(folder / text.name, text.text, options.hook);
}

}  // namespace

std::int64_t exported_bytes(const ModelConfig& model, StoredType type) {
  return parameter_count(model) * size_of(type);
}

void write_foreign_model(const fs::path& folder, const ModelConfig& model,
                         const std::vector<SmallFile>& texts, const ReadParameter& read,
                         const ExportOptions& options) {
  const fs::path target = folder.has_filename() ? folder : folder.parent_path();  // "out/" is "out"
  if (!options.replace && path_exists(target))
    throw UserError(fmt::format("{} exists; remove it or name another folder", target.string()));
  const fs::path staging = target.string() + ".tmp";
  const fs::path parent = target.has_parent_path() ? target.parent_path() : fs::path(".");
  create_folder(parent, options.hook);
  if (path_exists(staging)) remove_tree(staging, options.hook);
  check_space(parent, exported_bytes(model, options.type));
  try {
    create_folder(staging, options.hook);
    write_all(staging, model, texts, read, options);
    sync_directory(staging, options.hook);
    rename_or_exchange(staging, target, options.hook);
    sync_directory(parent, options.hook);
    if (path_exists(staging)) remove_tree(staging, options.hook);  // what the new one replaced
  } catch (...) {
    std::error_code ignored;
    fs::remove_all(staging, ignored);
    throw;
  }
}

}  // namespace titan
