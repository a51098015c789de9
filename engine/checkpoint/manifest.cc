#include "engine/checkpoint/manifest.h"

#include "engine/checkpoint/blocks.h"
#include "engine/io/file.h"
#include "engine/io/json.h"

#include <array>
#include <charconv>

namespace titan {
namespace {

using Json = nlohmann::json;

constexpr std::array<const char*, 3> kKindNames{"parameter", "exp_avg", "exp_avg_sq"};
constexpr int64_t kMaxBlockBytes = int64_t{1} << 30;
constexpr const char* kFormat = "titan checkpoint";

std::string dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

std::string to_hex(uint64_t hash) { return fmt::format("{:016x}", hash); }

/// Thrown for a value that parses but cannot be; the caller adds the file's name.
[[noreturn]] void reject(const std::string& problem) { throw std::invalid_argument(problem); }

uint64_t from_hex(const std::string& text) {
  uint64_t hash = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), hash, 16);
  if (error != std::errc() || end != text.data() + text.size() || text.size() != 16)
    reject("bad hash \"" + text + "\"");
  return hash;
}

StateKind kind_from(const std::string& name) {
  for (size_t i = 0; i < kKindNames.size(); ++i)
    if (name == kKindNames[i]) return static_cast<StateKind>(i);
  reject("unknown kind \"" + name + "\"");
}

Json json_of(const StoredTensor& tensor) {
  return {{"parameter", tensor.piece.parameter},
          {"shape", tensor.piece.global_shape},
          {"box_offset", tensor.piece.box.offset},
          {"box_size", tensor.piece.box.size},
          {"range", {tensor.piece.flat_begin, tensor.piece.flat_end}},
          {"kind", kKindNames[static_cast<size_t>(tensor.kind)]},
          {"dtype", safetensors_name(tensor.type)},
          {"offset", tensor.offset}};
}

std::vector<int64_t> sizes_from(const Json& json) {
  std::vector<int64_t> sizes;
  for (const Json& size : json) sizes.push_back(whole_number(size));
  return sizes;
}

StoredTensor tensor_from(const Json& json) {
  StoredTensor tensor;
  json.at("parameter").get_to(tensor.piece.parameter);
  tensor.piece.global_shape = sizes_from(json.at("shape"));
  tensor.piece.box.offset = sizes_from(json.at("box_offset"));
  tensor.piece.box.size = sizes_from(json.at("box_size"));
  tensor.piece.flat_begin = whole_number(json.at("range").at(0));
  tensor.piece.flat_end = whole_number(json.at("range").at(1));
  tensor.offset = whole_number(json.at("offset"));
  tensor.kind = kind_from(json.at("kind").get<std::string>());
  const auto type = stored_type(json.at("dtype").get<std::string>());
  if (!type || *type > StoredType::f16) reject("unknown dtype " + json.at("dtype").dump());
  tensor.type = *type;
  return tensor;
}

Json json_of(const StoredFile& file) {
  Json json = {{"name", file.name},
               {"data_begin", file.data_begin},
               {"data_bytes", file.data_bytes},
               {"header_hash", to_hex(file.header_hash)},
               {"block_bytes", file.block_bytes},
               {"block_hashes", Json::array()},
               {"tensors", Json::array()}};
  for (const uint64_t hash : file.block_hashes) json["block_hashes"].push_back(to_hex(hash));
  for (const StoredTensor& tensor : file.tensors) json["tensors"].push_back(json_of(tensor));
  return json;
}

void check_tensor(const StoredFile& file, const StoredTensor& tensor) {
  const std::string fault = find_fault(tensor.piece);
  if (!fault.empty()) reject(fmt::format("{}, tensor {}: {}", file.name, tensor.piece.parameter, fault));
  const int64_t size = size_of(tensor.type);
  if (tensor.offset < 0 || tensor.offset > file.data_bytes || tensor.offset % size != 0 ||
      tensor.piece.elements() > (file.data_bytes - tensor.offset) / size)
    reject(fmt::format("{}, tensor {}: {} elements at byte {} do not lie in the {} bytes of the file",
                       file.name, to_string(tensor.piece), tensor.piece.elements(), tensor.offset,
                       file.data_bytes));
}

void check_file(const StoredFile& file) {
  if (file.name.empty() || file.name.front() == '.' || file.name.find('/') != std::string::npos)
    reject("bad file name \"" + file.name + "\"");
  if (file.data_begin < 8 || file.data_begin > kMaxBlockBytes || file.data_bytes < 0)
    reject(fmt::format("{}: impossible sizes {} + {}", file.name, file.data_begin, file.data_bytes));
  if (file.block_bytes < 8 || file.block_bytes % 8 != 0 || file.block_bytes > kMaxBlockBytes)
    reject(fmt::format("{}: impossible block size {}", file.name, file.block_bytes));
  const int64_t blocks = file.data_bytes / file.block_bytes + (file.data_bytes % file.block_bytes != 0);
  if (blocks != static_cast<int64_t>(file.block_hashes.size()))
    reject(fmt::format("{}: {} hashes for {} blocks", file.name, file.block_hashes.size(), blocks));
  for (const StoredTensor& tensor : file.tensors) check_tensor(file, tensor);
}

StoredFile file_from(const Json& json) {
  StoredFile file;
  json.at("name").get_to(file.name);
  file.data_begin = whole_number(json.at("data_begin"));
  file.data_bytes = whole_number(json.at("data_bytes"));
  file.block_bytes = whole_number(json.at("block_bytes"));
  file.header_hash = from_hex(json.at("header_hash").get<std::string>());
  for (const Json& hash : json.at("block_hashes"))
    file.block_hashes.push_back(from_hex(hash.get<std::string>()));
  for (const Json& tensor : json.at("tensors")) file.tensors.push_back(tensor_from(tensor));
  check_file(file);
  return file;
}

Json json_of(const RunState& run) {
  return {{"step", run.step},
          {"samples_consumed", run.samples_consumed},
          {"tokens_seen", run.tokens_seen},
          {"clipped_steps", run.clipped_steps},
          {"global_batch_size", run.global_batch_size},
          {"world_size", run.world_size},
          {"layout", run.layout},
          {"recipe", run.recipe},
          {"model_config", run.model_config},
          {"data", run.data}};
}

RunState run_from(const Json& json) {
  RunState run;
  run.step = whole_number(json.at("step"));
  run.samples_consumed = whole_number(json.at("samples_consumed"));
  run.tokens_seen = whole_number(json.at("tokens_seen"));
  if (json.contains("clipped_steps"))
    run.clipped_steps = whole_number(json.at("clipped_steps"));  // older ones lack it
  run.global_batch_size = whole_number(json.at("global_batch_size"));
  run.world_size = whole_number<int>(json.at("world_size"));
  json.at("layout").get_to(run.layout);
  json.at("recipe").get_to(run.recipe);
  json.at("model_config").get_to(run.model_config);
  json.at("data").get_to(run.data);
  if (run.step < 0 || run.samples_consumed < 0 || run.tokens_seen < 0 || run.clipped_steps < 0)
    reject("a negative step, sample or token count");
  return run;
}

Json json_of(const Manifest& manifest) {
  Json json = {{"titan_version", manifest.titan_version},
               {"saved_at", manifest.saved_at},
               {"save_seconds", manifest.save_seconds},
               {"model_only", manifest.model_only},
               {"run", json_of(manifest.run)},
               {"files", Json::array()}};
  for (const StoredFile& file : manifest.files) json["files"].push_back(json_of(file));
  return json;
}

Manifest manifest_from(const Json& json) {
  Manifest manifest;
  json.at("titan_version").get_to(manifest.titan_version);
  json.at("saved_at").get_to(manifest.saved_at);
  json.at("save_seconds").get_to(manifest.save_seconds);
  json.at("model_only").get_to(manifest.model_only);
  manifest.run = run_from(json.at("run"));
  for (const Json& file : json.at("files")) manifest.files.push_back(file_from(file));
  return manifest;
}

uint64_t hash_of(const Json& content) {
  const std::string text = dump(content);
  return hash_bytes(std::as_bytes(std::span(text)));
}

Json parse_content(const std::string& text) {
  Json json = parse_json(text);
  if (!json.is_object() || json.value("format", "") != kFormat)
    reject("this is not the file of a titan checkpoint");
  const int version = whole_number<int>(json.at("version"));
  if (version != kManifestVersion)
    reject(fmt::format("it has version {}, this titan reads version {}", version, kManifestVersion));
  const uint64_t hash = hash_of(json.at("content")), saved = from_hex(json.at("hash").get<std::string>());
  if (hash != saved)
    reject(fmt::format("the hash of its content is {:016x}, {:016x} was saved", hash, saved));
  return std::move(json["content"]);
}

}  // namespace

std::string state_name(const std::string& parameter, StateKind kind) {
  return kind == StateKind::parameter
             ? parameter
             : fmt::format("{}.{}", parameter, kKindNames[static_cast<size_t>(kind)]);
}

std::string tensor_name(const Piece& piece, StateKind kind) {
  return state_name(piece.parameter, kind) + piece_suffix(piece);
}

std::string to_json(const Manifest& manifest) {
  const Json content = json_of(manifest);
  const Json json = {{"format", kFormat},
                     {"version", kManifestVersion},
                     {"hash", to_hex(hash_of(content))},
                     {"content", content}};
  return dump(json) + "\n";
}

Manifest parse_manifest(const std::string& json, const std::filesystem::path& path) {
  const auto damaged = [&](const std::string& problem) {
    return DamagedCheckpoint(fmt::format("{} is damaged: {}", path.string(), problem));
  };
  try {
    return manifest_from(parse_content(json));
  } catch (const Json::exception& error) {
    throw damaged(problem_of(error));
  } catch (const std::exception& error) {  // of the text, and reject()'s
    throw damaged(error.what());
  }
}

Manifest read_manifest(const std::filesystem::path& checkpoint) {
  const auto path = checkpoint / kManifestName;
  if (!path_exists(checkpoint))
    throw UserError(fmt::format("{}: there is no such checkpoint", checkpoint.string()));
  if (!path_exists(path))
    throw DamagedCheckpoint(fmt::format("{} has no {}: it is not a complete titan checkpoint",
                                        checkpoint.string(), kManifestName));
  return parse_manifest(read_text(path), path);
}

std::string to_json(const StoredFile& file) { return dump(json_of(file)); }

StoredFile parse_stored_file(const std::string& json) { return file_from(parse_json(json)); }

}  // namespace titan
