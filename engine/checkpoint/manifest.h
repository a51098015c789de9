// titan.json: what a checkpoint holds and where. It is written last, so a folder without it is not a
// checkpoint.
#pragma once

#include "engine/checkpoint/piece.h"
#include "engine/checkpoint/stored_type.h"
#include "kernels/base/error.h"

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace titan {

/// The checkpoint's bytes are not what was saved. Another checkpoint may be fine; other UserErrors would
/// repeat there.
class DamagedCheckpoint : public UserError {
 public:
  using UserError::UserError;
};

enum class StateKind { parameter, exp_avg, exp_avg_sq };
std::string state_name(const std::string& parameter, StateKind kind);  ///< "NAME", "NAME.exp_avg"
std::string tensor_name(const Piece& piece, StateKind kind);  ///< in the file: "NAME.exp_avg[0:4,8:16]"

/// The state of a run beside its tensors.
struct RunState {
  int64_t step = 0;
  int64_t samples_consumed = 0;  ///< all the data state there is: the order of samples is a function of it
  int64_t tokens_seen = 0;
  int64_t clipped_steps = 0;      ///< steps whose gradients were clipped
  int64_t global_batch_size = 0;  ///< sequences a step; fixed when the run was created
  int world_size = 1;
  std::string layout;        ///< for people: "dp 4, tp 2"
  std::string recipe;        ///< TOML
  std::string model_config;  ///< JSON
  std::string data;          ///< identity of the training data, so that a resume can tell a changed one
};

struct StoredTensor {
  Piece piece;
  StateKind kind = StateKind::parameter;
  StoredType type = StoredType::f32;
  int64_t offset = 0;  ///< bytes from the start of the file's data section
  int64_t bytes() const { return piece.elements() * size_of(type); }
};

/// One rank's file. Block i is bytes [i, i+1) * block_bytes of the data section; its hash is XXH3-64.
struct StoredFile {
  std::string name;
  int64_t data_begin = 0;  ///< size of the safetensors header
  int64_t data_bytes = 0;
  uint64_t header_hash = 0;
  int64_t block_bytes = 0;
  std::vector<uint64_t> block_hashes;
  std::vector<StoredTensor> tensors;
  int64_t size() const { return data_begin + data_bytes; }
};

struct Manifest {
  std::string titan_version;
  std::string saved_at;     ///< UTC, ISO 8601
  double save_seconds = 0;  ///< until all ranks' files were durable
  bool model_only = false;  ///< no optimizer state
  RunState run;
  std::vector<StoredFile> files;
};

inline constexpr int kManifestVersion = 1;
inline constexpr const char* kManifestName = "titan.json";

/// JSON, and its hash in it.
std::string to_json(const Manifest& manifest);
/// Throws DamagedCheckpoint naming `path` for anything that is not a valid manifest of this version.
Manifest parse_manifest(const std::string& json, const std::filesystem::path& path);
Manifest read_manifest(const std::filesystem::path& checkpoint);

/// One file's entry, as a rank sends it to rank 0.
std::string to_json(const StoredFile& file);
StoredFile parse_stored_file(const std::string& json);

}  // namespace titan
