// Which files a `dataset_path` means: every input (file, folder or glob) becomes text files with a known
// format.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace titan {

enum class TextFormat {
  plain,  ///< .txt .text .md .dict or no extension: one document a file
  lines,  ///< .jsonl .json: one JSON object a line, the document in its field "text" (as C4 ships)
};

enum class Compression { none, gzip, zstd };  ///< .gz and .dz (dictzip) are gzip, .zst is Zstandard

struct TextFile {
  std::filesystem::path path;
  TextFormat format = TextFormat::plain;
  Compression compression = Compression::none;
  int64_t bytes = 0;  ///< on disk
};

struct TextFiles {
  std::vector<TextFile> files;  ///< sorted by path, each once
  std::vector<std::filesystem::path>
      ignored;  ///< in folders only: unknown suffix or empty; worth one log line
};

/// Expands files, folders (recursively, hidden entries skipped) and globs. A path that exists is never taken
/// as a glob. Throws UserError for an input that does not exist, is empty, is Parquet, has an unknown suffix
/// or matches no text.
TextFiles expand_text_files(std::span<const std::string> inputs);

}  // namespace titan
