// What `titan checkpoint list | inspect | verify` print.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace titan {

/// A table: step, status, size, tokens, layout, when. Throws UserError if the folder does not exist.
std::string list_checkpoints(const std::filesystem::path& folder);

/// Step, tokens, layout, files, the parameters with shape, type, bytes and number of pieces, and the recipe.
std::string inspect_checkpoint(const std::filesystem::path& checkpoint);

struct VerifyReport {
  int64_t files = 0, blocks = 0, bytes = 0;  ///< that were read
  std::vector<std::string> problems;         ///< one line each: file, block, tensors it touches
  bool ok() const { return problems.empty(); }
};
/// Hashes everything. Damage is reported, not thrown.
VerifyReport verify_checkpoint(const std::filesystem::path& checkpoint);
std::string to_string(const VerifyReport& report);

}  // namespace titan
