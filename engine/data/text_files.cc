#include "engine/data/text_files.h"

#include "engine/io/file.h"
#include "kernels/base/error.h"

#include <algorithm>
#include <optional>
#include <string_view>

namespace titan {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kKnownSuffixes =
    ".txt, .text, .md, .dict or no suffix (one document a file), .jsonl or .json (one object a line); "
    "each also with .gz, .dz or .zst";

/// Format and compression from the name, or nothing for a suffix that is not text.
std::optional<TextFile> classify(const fs::path& path) {
  TextFile file{.path = path};
  fs::path name = path.filename();
  const std::string last = name.extension();
  if (last == ".gz" || last == ".dz") file.compression = Compression::gzip;
  if (last == ".zst") file.compression = Compression::zstd;
  if (file.compression != Compression::none) name = name.stem();

  const std::string suffix = name.extension();
  for (const char* plain : {"", ".txt", ".text", ".md", ".dict"}) {
    if (suffix == plain) return file;
  }
  if (suffix != ".jsonl" && suffix != ".json") return std::nullopt;
  file.format = TextFormat::lines;
  return file;
}

[[noreturn]] void throw_parquet(const fs::path& path) {
  throw UserError(fmt::format(
      "{} is a Parquet file, which titan does not read; convert it to JSON lines first, for example:\n"
      "  python -c \"import pandas; pandas.read_parquet('{}').to_json('{}', orient='records', lines=True)\"",
      path.string(), path.string(), fs::path(path).replace_extension(".jsonl").string()));
}

void add_file(const fs::path& path, TextFiles& out) {
  if (path.extension() == ".parquet") throw_parquet(path);
  std::optional<TextFile> file = classify(path);
  if (!file) {
    throw UserError(fmt::format("{}: unknown suffix '{}'; text files end in {}", path.string(),
                                path.extension().string(), kKnownSuffixes));
  }
  if (!fs::is_regular_file(path))
    throw UserError(
        fmt::format("{} is neither a file nor a folder (a device or a pipe); write its text to a "
                    "file first",
                    path.string()));
  file->bytes = static_cast<int64_t>(fs::file_size(path));
  if (file->bytes == 0)
    throw UserError(fmt::format("{} is empty (0 bytes); remove it from the data", path.string()));
  out.files.push_back(std::move(*file));
}

bool hidden(const fs::path& path) { return path.filename().string().starts_with('.'); }

void add_folder(const fs::path& folder, TextFiles& out) {
  const size_t before = out.files.size();
  const size_t ignored_before = out.ignored.size();
  for (auto entry = fs::recursive_directory_iterator(folder); entry != fs::recursive_directory_iterator();
       ++entry) {
    if (hidden(entry->path())) {
      entry.disable_recursion_pending();
    } else if (entry->is_regular_file()) {
      if (classify(entry->path()) && entry->file_size() > 0)
        add_file(entry->path(), out);
      else
        out.ignored.push_back(entry->path());
    }
  }
  if (out.files.size() > before) return;
  for (size_t i = ignored_before; i < out.ignored.size(); ++i) {
    if (out.ignored[i].extension() == ".parquet") throw_parquet(out.ignored[i]);
  }
  throw UserError(fmt::format("{}: the folder holds no text file; text files end in {}", folder.string(),
                              kKnownSuffixes));
}

void add_path(const fs::path& path, TextFiles& out) {
  if (fs::is_directory(path))
    add_folder(path, out);
  else
    add_file(path, out);
}

void add_glob(const std::string& pattern, TextFiles& out) {
  const std::vector<fs::path> paths = matching_paths(pattern);
  if (paths.empty())
    throw UserError(fmt::format("no file matches '{}'; check the path and the pattern", pattern));
  for (const fs::path& path : paths) add_path(path, out);
}

}  // namespace

TextFiles expand_text_files(std::span<const std::string> inputs) {
  if (inputs.empty()) throw UserError("no text files given; set training.dataset_path");
  TextFiles out;
  try {
    for (const std::string& input : inputs) {
      std::error_code unreadable;  // a link to itself exists as little as a path that is not there
      if (fs::exists(input, unreadable))
        add_path(input, out);
      else if (input.find_first_of("*?[") != std::string::npos)
        add_glob(input, out);
      else
        throw UserError(fmt::format("{} does not exist; check the path", input));
    }
  } catch (const fs::filesystem_error& error) {
    throw UserError(fmt::format("cannot list the data: {}", error.what()));
  }
  const auto by_path = [](const TextFile& a, const TextFile& b) { return a.path < b.path; };
  const auto same_path = [](const TextFile& a, const TextFile& b) { return a.path == b.path; };
  std::sort(out.files.begin(), out.files.end(), by_path);
  out.files.erase(std::unique(out.files.begin(), out.files.end(), same_path), out.files.end());
  std::sort(out.ignored.begin(), out.ignored.end());
  return out;
}

}  // namespace titan
