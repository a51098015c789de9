#include "app/trainer/convert.h"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "app/trainer/run_data.h"
#include "engine/checkpoint/catalog.h"
#include "engine/checkpoint/save.h"
#include "engine/huggingface/export.h"
#include "engine/huggingface/import.h"
#include "engine/metrics/progress.h"
#include "engine/model/config.h"
#include "engine/tokenizer/tokenizer.h"
#include "kernels/base/error.h"

namespace titan {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kWindow = 2048;
constexpr std::int64_t kLlama3Positions = 131072;

/// Where transformers keeps what belongs to a tokenizer.
constexpr const char* kTokenizerFiles[] = {"tokenizer_config.json", "special_tokens_map.json",
                                           "chat_template.jinja", "generation_config.json"};

std::string_view dtype_name(StoredType type) {
  return type == StoredType::bf16 ? "bfloat16" : type == StoredType::f16 ? "float16" : "float32";
}

/// The folder and the step that `output` names.
std::pair<fs::path, std::int64_t> split_output(const fs::path& output) {
  const fs::path path = output.has_filename() ? output : output.parent_path();
  const fs::path parent = path.has_parent_path() ? path.parent_path() : fs::path(".");
  const std::string name = path.filename().string(),
                    digits = name.substr(std::min<std::size_t>(5, name.size()));
  const bool is_step = name.starts_with("step-") && !digits.empty() && digits.size() <= 18 &&
                       std::all_of(digits.begin(), digits.end(), [](char c) { return c >= '0' && c <= '9'; });
  return is_step ? std::pair(parent, std::int64_t{std::stoll(digits)}) : std::pair(path, std::int64_t{0});
}

/// The recipe's tokenizer file, or nothing.
fs::path tokenizer_file(const Recipe& recipe) {
  const fs::path path = tokenizer_path(recipe);
  if (path.extension() == ".json") return path;
  if (path_exists(path / "tokenizer.json")) return path / "tokenizer.json";
  return {};
}

std::optional<std::string> text_of(const Tokenizer& tokenizer, std::optional<std::int32_t> token) {
  if (!token) return std::nullopt;
  return tokenizer.decode(std::span(&*token, 1));
}

/// Adds the tokenizer's files to `texts`, and its BOS and EOS to `config`.
void add_tokenizer(const Tokenizer& tokenizer, const Recipe& recipe, std::vector<SmallFile>& texts,
                   ExportedConfig& config) {
  config.bos = tokenizer.bos();
  config.eos = tokenizer.eos();
  const fs::path file = tokenizer_file(recipe);
  if (file.empty()) {
    spdlog::warn("The checkpoint's tokenizer has no tokenizer.json: the folder is exported without one");
    return;
  }
  texts.push_back({"tokenizer.json", read_text(file)});
  for (const char* name : kTokenizerFiles)
    if (path_exists(file.parent_path() / name)) texts.push_back({name, read_text(file.parent_path() / name)});
}

bool has(const std::vector<SmallFile>& texts, std::string_view name) {
  return std::any_of(texts.begin(), texts.end(), [&](const SmallFile& t) { return t.name == name; });
}

/// Every file of the exported folder but the weights.
std::vector<SmallFile> small_files(const RunState& run, const Recipe& recipe, const ModelConfig& model,
                                   StoredType type) {
  ExportedConfig config;
  config.dtype = dtype_name(type);
  const std::int64_t trained = model.rope_scaling == RopeScaling{} ? 0 : kLlama3Positions;
  config.max_positions =
      max_positions_of(run.model_config).value_or(std::max(trained, recipe.training.seq_len));
  std::vector<SmallFile> texts;
  std::unique_ptr<Tokenizer> tokenizer;
  try {
    tokenizer = recipe_tokenizer(recipe);
    add_tokenizer(*tokenizer, recipe, texts, config);
  } catch (const UserError& error) {
    spdlog::warn("The folder is exported without a tokenizer: {}", error.what());
  }
  if (has(texts, "tokenizer.json") && !has(texts, "tokenizer_config.json"))
    texts.push_back({"tokenizer_config.json", tokenizer_config_json(text_of(*tokenizer, config.bos),
                                                                    text_of(*tokenizer, config.eos))});
  if (!has(texts, "generation_config.json"))
    texts.push_back({"generation_config.json", generation_config_json(config)});
  texts.push_back({"config.json", config_json(model, config)});
  return texts;
}

}  // namespace

Recipe foreign_recipe(const ForeignModel& model) {
  Recipe recipe;
  set_model(recipe, model.config().model);
  recipe.model.hf_assets_path = fs::absolute(model.folder()).lexically_normal().string();
  recipe.training.seq_len = std::min(kWindow, model.config().max_positions);
  return recipe;
}

void load_with_bar(const ForeignModel& model, std::span<const WantedTensor> wanted) {
  std::int64_t bytes = 0;
  for (const WantedTensor& w : wanted)
    if (w.kind == StateKind::parameter) bytes += 4 * w.piece.elements();
  ProgressBar bar("Loading", bytes, "B");
  for (const WantedTensor& w : wanted) {
    model.load(std::span(&w, 1));
    if (w.kind == StateKind::parameter) bar.advance(4 * w.piece.elements());
  }
  bar.finish();
}

fs::path import_model(const fs::path& folder, const fs::path& output) {
  const ForeignModel model(folder);
  const auto [parent, step] = split_output(output);
  if (path_exists(checkpoint_path(parent, step)))
    throw UserError(fmt::format("{} exists; remove it or name another checkpoint",
                                checkpoint_path(parent, step).string()));
  const Recipe recipe = foreign_recipe(model);
  Snapshot snapshot;
  snapshot.run.step = step;
  snapshot.run.layout = "1 rank";
  snapshot.run.recipe = to_toml(recipe);
  snapshot.run.model_config =
      config_json(model.config().model,
                  {.dtype = "float32", .max_positions = model.config().max_positions, .bos = {}, .eos = {}});
  ProgressBar bar("Importing", exported_bytes(model.config().model, StoredType::f32), "B");
  for (const ParameterSpec& p : parameters(model.config().model))
    snapshot.tensors.push_back(
        {.piece = whole_piece(p.name, p.file_shape()),
         .read = [&model, &bar, name = p.name](std::int64_t begin, std::span<float> out) {
           model.read(name, begin, out);
           bar.advance(static_cast<std::int64_t>(out.size() * sizeof(float)));
         }});
  SoloCoordinator alone;
  SaveOptions options;
  options.model_only = true;
  const SaveResult saved = save_checkpoint(parent, snapshot, alone, options);
  bar.finish();
  return saved.path;
}

fs::path newest_checkpoint(const fs::path& checkpoint) {
  if (path_exists(checkpoint / kManifestName)) return checkpoint;
  const std::optional<CheckpointEntry> latest = latest_checkpoint(checkpoint);
  if (!latest)
    throw UserError(fmt::format("{} is neither a checkpoint (it has no {}) nor a folder with one",
                                checkpoint.string(), kManifestName));
  return latest->path;
}

void export_checkpoint(const fs::path& checkpoint, const fs::path& output, const std::string& tokenizer,
                       ExportOptions options) {
  const Manifest manifest = read_manifest(checkpoint);
  Recipe recipe = parse_recipe(manifest.run.recipe, (checkpoint / kManifestName).string() + ": recipe");
  const ModelConfig model = model_config(recipe);
  if (!tokenizer.empty()) recipe.model.tokenizer = tokenizer;

  LoadOptions checks;
  checks.check_only = true;
  std::vector<WantedTensor> all;
  for (const ParameterSpec& p : parameters(model)) {
    all.push_back({.piece = whole_piece(p.name, p.file_shape())});
    checks.model_parameters.push_back(p.name);
  }
  load_checkpoint(checkpoint, manifest, all, checks);
  const std::vector<SmallFile> texts = small_files(manifest.run, recipe, model, options.type);
  ProgressBar bar("Exporting", exported_bytes(model, options.type), "B");
  options.progress = [&](std::int64_t bytes) { bar.advance(bytes); };
  write_foreign_model(
      output, model, texts,
      [&](const ParameterSpec& p, std::span<float> values) {
        const WantedTensor wanted{.piece = whole_piece(p.name, p.file_shape()), .data = values.data()};
        load_checkpoint(checkpoint, manifest, std::span(&wanted, 1), {});
      },
      options);
  bar.finish();
}

}  // namespace titan
