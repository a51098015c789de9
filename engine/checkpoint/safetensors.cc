#include "engine/checkpoint/safetensors.h"

#include "engine/io/json.h"
#include "kernels/base/error.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>
#include <unordered_set>

namespace titan {
namespace {

using Json = nlohmann::json;
static_assert(std::endian::native == std::endian::little, "safetensors are little endian");

constexpr int64_t kLengthBytes = 8;
constexpr int64_t kMaxHeaderBytes = 100'000'000;  // the reference implementation's limit
constexpr int kMaxDepth = 20;  // a header has 3 levels; messages print what is wrong, by recursion
constexpr const char* kMetadataKey = "__metadata__";

[[noreturn]] void fail(const std::string& path, const std::string& problem) {
  throw UserError(fmt::format("{}: not a valid safetensors file: {}; get the file again", path, problem));
}

/// A whole number in [0, 2^63), or nothing.
std::optional<int64_t> natural(const Json& value) {
  if (!value.is_number_unsigned() || value.get<uint64_t>() > INT64_MAX) return std::nullopt;
  return value.get<int64_t>();
}

/// The header's JSON object. nlohmann keeps the last of equal keys, so they are looked for while it parses.
Json parse_header(const std::string& path, std::span<const std::byte> header) {
  std::unordered_set<std::string> names;
  const auto check_key = [&](int depth, Json::parse_event_t event, Json& parsed) {
    if (depth > kMaxDepth) fail(path, fmt::format("its header is nested deeper than {} levels", kMaxDepth));
    if (depth == 1 && event == Json::parse_event_t::key && !names.insert(parsed.get<std::string>()).second)
      fail(path, fmt::format("tensor {} is there twice", parsed.get<std::string>()));
    return true;
  };
  const char* text = reinterpret_cast<const char*>(header.data());
  try {
    Json json = Json::parse(text, text + header.size(), check_key);
    if (!json.is_object()) fail(path, "its header is not a JSON object");
    return json;
  } catch (const Json::exception& error) {
    fail(path, fmt::format("its header is not JSON ({})", problem_of(error)));
  }
}

TensorMetadata parse_metadata(const std::string& path, const Json& json) {
  TensorMetadata metadata;
  if (!json.is_object()) fail(path, "__metadata__ is not an object");
  for (const auto& [key, value] : json.items()) {
    if (!value.is_string()) fail(path, fmt::format("__metadata__.{} is not a string", key));
    metadata[key] = value.get<std::string>();
  }
  return metadata;
}

/// The bytes of a tensor, or nothing if they do not fit an int64.
std::optional<int64_t> bytes_of(StoredType type, const std::vector<int64_t>& shape) {
  int64_t bytes = size_of(type);
  for (const int64_t size : shape)
    if (__builtin_mul_overflow(bytes, size, &bytes)) return std::nullopt;
  return bytes;
}

TensorEntry parse_tensor(const std::string& path, const std::string& name, const Json& json) {
  const auto fail_here = [&](const std::string& problem) {
    fail(path, fmt::format("tensor {}: {}", name, problem));
  };
  if (!json.is_object() || json.size() != 3 || !json.contains("dtype") || !json.contains("shape") ||
      !json.contains("data_offsets"))
    fail_here("needs dtype, shape and data_offsets");
  const Json &dtype = json["dtype"], &shape = json["shape"], &offsets = json["data_offsets"];
  const auto type = dtype.is_string() ? stored_type(dtype.get<std::string>()) : std::nullopt;
  if (!dtype.is_string()) fail_here(fmt::format("dtype {} is not a name", dtype.dump()));
  if (!type)  // the format has more types: the file may well be valid
    throw UserError(fmt::format(
        "{}: tensor {}: dtype {} is not one of F32, BF16, F16, I32, I64, U8, which titan reads; convert it",
        path, name, dtype.dump()));

  TensorEntry entry{name, *type, {}, 0, 0};
  if (!shape.is_array()) fail_here(fmt::format("shape {} is not a list", shape.dump()));
  for (const Json& size : shape) {
    if (!natural(size)) fail_here(fmt::format("shape {} is not a list of sizes", shape.dump()));
    entry.shape.push_back(*natural(size));
  }
  if (!offsets.is_array() || offsets.size() != 2 || !natural(offsets[0]) || !natural(offsets[1]) ||
      *natural(offsets[1]) < *natural(offsets[0]))
    fail_here(fmt::format("data_offsets {} are not a begin and an end", offsets.dump()));
  entry.offset = *natural(offsets[0]);
  entry.bytes = *natural(offsets[1]) - entry.offset;
  if (bytes_of(*type, entry.shape) != entry.bytes)
    fail_here(fmt::format("data_offsets {} do not hold dtype {} and shape {}", offsets.dump(), dtype.dump(),
                          shape.dump()));
  return entry;
}

std::span<const std::byte> as_bytes(const std::string& text) { return std::as_bytes(std::span(text)); }

int64_t data_bytes(std::span<const TensorEntry> tensors) {
  return tensors.empty() ? 0 : tensors.back().offset + tensors.back().bytes;
}

}  // namespace

SafetensorsReader::SafetensorsReader(const std::filesystem::path& path) : file_(path) {
  parse(path.string());
}

void SafetensorsReader::parse(const std::string& path) {
  const auto file = file_.bytes();
  const auto file_size = static_cast<int64_t>(file.size());
  if (file_size < kLengthBytes)
    fail(path, fmt::format("it has {} bytes, its header alone needs more", file_size));
  uint64_t header_bytes;
  std::memcpy(&header_bytes, file.data(), sizeof(header_bytes));
  if (header_bytes > static_cast<uint64_t>(std::min(file_size - kLengthBytes, kMaxHeaderBytes)))
    fail(path, fmt::format("it gives its header {} bytes, but has {} (and at most {} are allowed)",
                           header_bytes, file_size - kLengthBytes, kMaxHeaderBytes));
  data_begin_ = kLengthBytes + static_cast<int64_t>(header_bytes);

  const Json header = parse_header(path, file.subspan(kLengthBytes, header_bytes));
  for (const auto& [name, json] : header.items()) {
    if (name == kMetadataKey)
      metadata_ = parse_metadata(path, json);
    else
      tensors_.push_back(parse_tensor(path, name, json));
  }
  std::sort(tensors_.begin(), tensors_.end(), [](const TensorEntry& a, const TensorEntry& b) {
    return std::pair(a.offset, a.bytes) < std::pair(b.offset, b.bytes);
  });
  int64_t end = 0;
  for (const TensorEntry& tensor : tensors_) {
    if (tensor.offset != end)
      fail(path, fmt::format("tensor {} begins at byte {} of the data, where {} ends the one before: {}",
                             tensor.name, tensor.offset, end,
                             tensor.offset < end ? "they overlap" : "there is a hole"));
    end += tensor.bytes;
    by_name_.emplace(tensor.name, by_name_.size());
  }
  if (data_begin_ + end != file_size)
    fail(path, fmt::format("it should have {} bytes, but has {}", data_begin_ + end, file_size));
}

const TensorEntry* SafetensorsReader::find(const std::string& name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &tensors_[found->second];
}

std::span<const std::byte> SafetensorsReader::bytes(const TensorEntry& tensor) const {
  return file_.bytes().subspan(static_cast<size_t>(data_begin_ + tensor.offset),
                               static_cast<size_t>(tensor.bytes));
}

void assign_offsets(std::vector<TensorEntry>& tensors) {
  int64_t offset = 0;
  for (TensorEntry& tensor : tensors) {
    const auto bytes = bytes_of(tensor.type, tensor.shape);
    TITAN_CHECK(bytes.has_value(), "{}: too large", tensor.name);
    tensor.offset = offset;
    tensor.bytes = *bytes;
    offset += *bytes;
  }
}

std::string safetensors_header(std::span<const TensorEntry> tensors, const TensorMetadata& metadata) {
  Json json = Json::object();
  if (!metadata.empty()) json[kMetadataKey] = metadata;
  for (const TensorEntry& tensor : tensors) {
    TITAN_CHECK(!json.contains(tensor.name), "tensor {} is there twice", tensor.name);
    json[tensor.name] = {{"dtype", safetensors_name(tensor.type)},
                         {"shape", tensor.shape},
                         {"data_offsets", {tensor.offset, tensor.offset + tensor.bytes}}};
  }
  std::string text = json.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const uint64_t length = text.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof(length)) + text;
}

SafetensorsWriter::SafetensorsWriter(const std::filesystem::path& path, std::vector<TensorEntry> tensors,
                                     const TensorMetadata& metadata, DiskHook hook)
    : tensors_(std::move(tensors)), file_(path, std::move(hook)) {
  assign_offsets(tensors_);
  header_ = safetensors_header(tensors_, metadata);
  remaining_ = data_bytes(tensors_);
  file_.write(as_bytes(header_));
}

void SafetensorsWriter::write(std::span<const std::byte> bytes) {
  remaining_ -= static_cast<int64_t>(bytes.size());
  TITAN_CHECK(remaining_ >= 0, "{} bytes more than described", -remaining_);
  file_.write(bytes);
}

void SafetensorsWriter::finish() {
  TITAN_CHECK_EQ(remaining_, 0);
  file_.sync_and_close();
}

}  // namespace titan
