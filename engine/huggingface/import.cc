#include "engine/huggingface/import.h"

#include <algorithm>
#include <set>

#include "engine/checkpoint/safetensors.h"
#include "engine/huggingface/names.h"
#include "kernels/base/error.h"

namespace titan {

namespace fs = std::filesystem;

struct ForeignModel::File {
  explicit File(const fs::path& path) : reader(path), input(path) {}
  SafetensorsReader reader;  ///< its mapping is only touched where the header is
  InputFile input;
};

namespace {

constexpr const char *kConfig = "config.json", *kParams = "params.json", *kSingle = "model.safetensors",
                     *kIndex = "model.safetensors.index.json";
constexpr std::int64_t kChunkElements = std::int64_t{1} << 20;

/// The files of `folder` in order of name; empty where it cannot be listed.
std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator item(folder, error), end; !error && item != end; item.increment(error))
    names.push_back(item->path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

/// Formats that are not read, and what makes safetensors of them.
[[noreturn]] void throw_no_weights(const fs::path& folder, const std::vector<std::string>& names) {
  const auto any = [&](std::string_view begin, std::string_view end) {
    return std::any_of(names.begin(), names.end(),
                       [&](const std::string& n) { return n.starts_with(begin) && n.ends_with(end); });
  };
  std::string problem =
      "it has no *.safetensors; titan reads Hugging Face folders with config.json and "
      "model.safetensors or model.safetensors.index.json";
  if (any(".metadata", "") || any("", ".distcp"))
    problem =
        "this is a PyTorch distributed checkpoint (DCP); convert it to a Hugging Face folder with "
        "TorchTitan's scripts/checkpoint_conversion/convert_to_hf.py, or make one file of it with "
        "python -m torch.distributed.checkpoint.format_utils dcp_to_torch and save that as safetensors";
  else if (any("pytorch_model", ".bin") || any("pytorch_model", ".bin.index.json"))
    problem =
        "its weights are pickled (pytorch_model.bin); in Python: AutoModelForCausalLM.from_pretrained("
        "FOLDER).save_pretrained(OUTPUT, safe_serialization=True)";
  else if (any("consolidated", ".pth"))
    problem =
        "its weights are Meta's pickled consolidated.*.pth; convert them with transformers' "
        "convert_llama_weights_to_hf.py, or save the tensors of a single one with "
        "safetensors.torch.save_file next to params.json";
  throw UserError(fmt::format("{}: {}", folder.string(), problem));
}

bool is_float(StoredType type) { return type <= StoredType::f16; }

}  // namespace

bool is_foreign_model(const fs::path& folder) {
  return !path_exists(folder / kManifestName) &&
         (path_exists(folder / kConfig) || path_exists(folder / kParams));
}

ForeignModel::ForeignModel(const fs::path& folder) : folder_(folder) {
  if (!path_exists(folder)) throw UserError(fmt::format("{}: there is no such folder", folder.string()));
  if (path_exists(folder / kManifestName))
    throw UserError(fmt::format("{} is a titan checkpoint, not a Hugging Face folder", folder.string()));
  const fs::path config = folder / kConfig;
  const bool has_config = path_exists(config);
  if (has_config) config_ = parse_config_json(read_text(config), config.string());
  open_files();
  if (!has_config) read_params();
  find_parameters();
  check_extra();
}

ForeignModel::~ForeignModel() = default;

/// Meta's configuration leaves to the tensors how many tokens there are and whether the head is tied.
void ForeignModel::read_params() {
  const fs::path params = folder_ / kParams;
  if (!path_exists(params))
    throw UserError(
        fmt::format("{} has neither a config.json nor Meta's params.json, which say what model "
                    "its weights are of",
                    folder_.string()));
  const File* file = nullptr;
  const TensorEntry* table = find(meta_name("model.embed_tokens.weight"), &file);
  config_ = parse_params_json(
      read_text(params), params.string(),
      table != nullptr && !table->shape.empty() ? std::optional(table->shape.front()) : std::nullopt);
  config_.model.tie_embeddings = find(meta_name("lm_head.weight"), &file) == nullptr;
}

void ForeignModel::open_files() {
  const fs::path index = folder_ / kIndex;
  std::map<std::string, std::string> listed;
  std::set<std::string> names;
  if (path_exists(index)) {
    listed = parse_weight_index(read_text(index), index.string());
    for (const auto& [tensor, file] : listed) names.insert(file);
  } else if (path_exists(folder_ / kSingle)) {
    names = {kSingle};
  } else {
    const std::vector<std::string> all = names_in(folder_);
    std::copy_if(all.begin(), all.end(), std::inserter(names, names.end()),
                 [](const std::string& name) { return name.ends_with(".safetensors"); });
    if (names.empty()) throw_no_weights(folder_, all);
  }
  for (const std::string& name : names) {
    if (!path_exists(folder_ / name))
      throw UserError(fmt::format("{}: {} is missing; get the folder again", folder_.string(), name));
    files_.push_back(std::make_unique<File>(folder_ / name));
    for (const TensorEntry& tensor : files_.back()->reader.tensors()) {
      const auto [at, is_new] = file_of_.emplace(tensor.name, files_.back().get());
      if (!is_new)
        throw UserError(
            fmt::format("{}: tensor {} is in two files, {} and {}; weights that are split within a "
                        "tensor are not read: convert the folder with transformers",
                        folder_.string(), tensor.name, at->second->input.path().filename().string(), name));
    }
  }
  for (const auto& [tensor, name] : listed)
    if (!file_of_.contains(tensor))
      throw UserError(fmt::format("{}: tensor {} is missing in {}, where {} says it is; get the folder again",
                                  folder_.string(), tensor, name, kIndex));
}

const TensorEntry* ForeignModel::find(const std::string& name, const File** file) const {
  const auto found = file_of_.find(name);
  if (found == file_of_.end()) return nullptr;
  *file = found->second;
  return found->second->reader.find(name);
}

void ForeignModel::find_parameters() {
  for (const ParameterSpec& p : parameters(config_.model)) {
    Source source{.rows = p.rows, .cols = p.cols};
    const TensorEntry* tensor = find(p.name, &source.file);
    if (tensor == nullptr) {
      tensor = find(meta_name(p.name), &source.file);
      source.interleaved = is_rotated(p.name);
    }
    if (tensor == nullptr)
      throw UserError(
          fmt::format("{}: tensor {} (or {}) is missing; the folder is not complete, or its "
                      "configuration is of another model",
                      folder_.string(), p.name, meta_name(p.name)));
    const std::vector<std::int64_t> shape = p.file_shape();
    if (tensor->shape != shape)
      throw UserError(fmt::format("{}: tensor {} has shape {}, its configuration says {}",
                                  source.file->input.path().string(), tensor->name, to_string(tensor->shape),
                                  to_string(shape)));
    if (!is_float(tensor->type))
      throw UserError(
          fmt::format("{}: tensor {} has type {}; titan reads unquantized weights: F32, BF16 or F16",
                      source.file->input.path().string(), tensor->name, safetensors_name(tensor->type)));
    source.type = tensor->type;
    source.offset = source.file->reader.data_begin() + tensor->offset;
    sources_.emplace(p.name, source);
  }
}

void ForeignModel::check_extra() const {
  std::set<std::string> known;
  for (const auto& [name, source] : sources_) {
    known.insert(name);
    known.insert(meta_name(name));
  }
  std::vector<std::string> extra;
  for (const auto& [name, file] : file_of_) {
    if (known.contains(name) || is_derived(name)) continue;
    if (config_.model.tie_embeddings && (name == "lm_head.weight" || name == meta_name("lm_head.weight")))
      check_tied_head(name);
    else
      extra.push_back(name);
  }
  if (extra.empty()) return;
  std::sort(extra.begin(), extra.end());
  throw UserError(
      fmt::format("{}: {} tensors are no part of the model that its configuration describes, the "
                  "first is {}; titan reads plain LlamaForCausalLM",
                  folder_.string(), extra.size(), extra.front()));
}

/// Some files hold the shared table twice.
void ForeignModel::check_tied_head(const std::string& name) const {
  const File* file = nullptr;
  const TensorEntry* head = find(name, &file);
  const Source& table = sources_.at("model.embed_tokens.weight");
  const auto size = static_cast<std::size_t>(table.rows * table.cols * size_of(table.type));
  bool same = head->type == table.type && static_cast<std::size_t>(head->bytes) == size;
  std::vector<std::byte> a, b;
  for (std::size_t at = 0; same && at < size; at += a.size()) {
    a.resize(std::min<std::size_t>(size - at, kChunkElements));
    b.resize(a.size());
    const auto offset = static_cast<std::int64_t>(at);
    file->input.read(file->reader.data_begin() + head->offset + offset, a);
    table.file->input.read(table.offset + offset, b);
    same = a == b;
  }
  if (!same)
    throw UserError(
        fmt::format("{}: {} is not the embedding, but tie_word_embeddings says that it is; set that "
                    "to false in config.json",
                    folder_.string(), name));
}

void ForeignModel::read_run(const Source& source, std::int64_t begin, std::span<float> out) const {
  const std::int64_t size = size_of(source.type);
  std::vector<std::byte> buffer;
  while (!out.empty()) {
    const std::size_t count = std::min<std::size_t>(out.size(), kChunkElements);
    buffer.resize(count * static_cast<std::size_t>(size));
    source.file->input.read(source.offset + begin * size, buffer);
    decode(source.type, buffer.data(), out.first(count));
    out = out.subspan(count);
    begin += static_cast<std::int64_t>(count);
  }
}

void ForeignModel::read(const std::string& parameter, std::int64_t begin, std::span<float> out) const {
  const auto found = sources_.find(parameter);
  TITAN_CHECK(found != sources_.end(), "{} is no parameter", parameter);
  const Source& source = found->second;
  if (!source.interleaved) return read_run(source, begin, out);
  while (!out.empty()) {
    const std::int64_t row = begin / source.cols, column = begin % source.cols;
    const auto count = std::min(static_cast<std::int64_t>(out.size()), source.cols - column);
    read_run(source, meta_row(row, config_.model.head_dim) * source.cols + column,
             out.first(static_cast<std::size_t>(count)));
    out = out.subspan(static_cast<std::size_t>(count));
    begin += count;
  }
}

void ForeignModel::load(std::span<const WantedTensor> wanted) const {
  for (const WantedTensor& want : wanted) {
    if (want.kind != StateKind::parameter) continue;
    const Piece whole = whole_piece(want.piece.parameter, want.piece.global_shape);
    for (const CopyRange& copy : plan_reads(std::span(&whole, 1), want.piece))
      for (std::int64_t done = 0; done < copy.count;) {
        const auto count = std::min(copy.count - done, static_cast<std::int64_t>(kChunkElements));
        fill_elements(want, copy.target + done, count, [&](std::span<float> elements) {
          read(want.piece.parameter, copy.source + done, elements);
        });
        done += count;
      }
  }
}

}  // namespace titan
