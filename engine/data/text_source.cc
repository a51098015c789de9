#include "engine/data/text_source.h"

#include "engine/data/byte_reader.h"
#include "engine/io/json.h"
#include "kernels/base/error.h"

#include <algorithm>

namespace titan {

namespace {

bool ascii_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool continuation_byte(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

/// Does `text` begin with a character that is surely not Unicode White_Space? The characters that start with
/// the bytes C2, E1 and E2, which hold all but one of the non-ASCII spaces, count as spaces; U+3000 is E3
/// 80 80.
bool begins_with_visible(std::string_view text) {
  if (text.empty()) return false;
  const auto first = static_cast<unsigned char>(text[0]);
  if (first <= 0x20 || first == 0x7F) return false;
  if (first == 0xC2 || first == 0xE1 || first == 0xE2) return false;
  return first != 0xE3 || (text.size() >= 3 && text.substr(0, 3) != "\xE3\x80\x80");
}

size_t cut_after_newline(std::string_view text) {
  for (size_t end = text.size(); end > 0;) {
    const size_t newline = text.rfind('\n', end - 1);
    if (newline == std::string_view::npos) return 0;
    if (begins_with_visible(text.substr(newline + 1))) return newline + 1;
    end = newline;
  }
  return 0;
}

size_t cut_before_space(std::string_view text) {
  for (size_t i = text.size(); i-- > 2;) {
    if (ascii_letter(text[i]) && text[i - 1] == ' ' && ascii_letter(text[i - 2])) return i - 1;
  }
  return 0;
}

size_t cut_before_character(std::string_view text) {
  constexpr size_t kMaxContinuations = 3;
  size_t cut = text.size() - 1;
  for (size_t i = 0; i < kMaxContinuations && cut > 0 && continuation_byte(text[cut]); ++i) --cut;
  return cut > 0 ? cut : text.size();
}

[[noreturn]] void throw_line_error(const TextChunk& chunk, int64_t line, const std::string& reason) {
  throw UserError(fmt::format("{}:{}: {}", chunk.file->path.string(), line, reason));
}

bool blank(std::string_view line) { return line.find_first_not_of(" \t\r") == std::string_view::npos; }

std::string text_of_line(const TextChunk& chunk, std::string_view line, int64_t number) {
  using nlohmann::json;
  json object;
  try {
    object = json::parse(line);
  } catch (const json::exception& error) {
    const bool array = line[line.find_first_not_of(" \t")] == '[';
    throw_line_error(chunk, number,
                     fmt::format("not a JSON object on one line ({}); {}", problem_of(error),
                                 array ? "a JSON array becomes JSON lines with: jq -c '.[]' FILE"
                                       : "each line must look like {\"text\": \"...\"}"));
  }
  if (!object.is_object())
    throw_line_error(chunk, number,
                     fmt::format("a JSON {}, not an object with a field \"text\"", object.type_name()));
  const auto text = object.find("text");
  if (text == object.end()) throw_line_error(chunk, number, "the object has no field \"text\"");
  if (!text->is_string())
    throw_line_error(chunk, number, fmt::format("field \"text\" is a {}, not a string", text->type_name()));
  return std::move(text->get_ref<std::string&>());
}

}  // namespace

size_t find_cut(std::string_view text) {
  TITAN_CHECK(!text.empty());
  if (const size_t cut = cut_after_newline(text)) return cut;
  if (const size_t cut = cut_before_space(text)) return cut;
  return cut_before_character(text);
}

TextSource::TextSource(const std::vector<TextFile>& files, size_t chunk_bytes)
    : files_(files), chunk_bytes_(chunk_bytes) {
  TITAN_CHECK(chunk_bytes > 0);
}

TextSource::~TextSource() = default;

std::optional<TextChunk> TextSource::next() {
  while (file_ < files_.size()) {
    const TextFile& file = files_[file_];
    if (!reader_) reader_ = open_byte_reader(file);
    std::optional<TextChunk> chunk = file.format == TextFormat::plain ? next_plain() : next_lines();
    if (chunk) return chunk;
    if (!started_)
      throw UserError(fmt::format("{} holds no text; remove it from the data", file.path.string()));
    close_file();
  }
  return std::nullopt;
}

void TextSource::close_file() {
  finished_files_bytes_ += files_[file_].bytes;
  reader_.reset();
  ++file_;
  at_end_ = false;
  started_ = false;
  line_ = 1;
}

void TextSource::fill(size_t target) {
  const size_t have = buffer_.size();
  if (at_end_ || have >= target) return;
  buffer_.resize(target);
  const size_t got = reader_->read(buffer_.data() + have, target - have);
  buffer_.resize(have + got);
  at_end_ = have + got < target;
}

TextChunk TextSource::take(size_t bytes) {
  TextChunk chunk;
  chunk.file = &files_[file_];
  chunk.bytes = buffer_.substr(0, bytes);
  buffer_.erase(0, bytes);
  chunk.first_line = line_;
  chunk.begins_document = !started_;
  chunk.ends_document = at_end_ && buffer_.empty();
  chunk.file_bytes_done = finished_files_bytes_ + reader_->file_offset();
  started_ = true;
  return chunk;
}

std::optional<TextChunk> TextSource::next_plain() {
  fill(chunk_bytes_ + 1);  // one byte more, so that the last chunk knows that it is the last
  if (buffer_.empty()) return std::nullopt;
  if (buffer_.size() <= chunk_bytes_) return take(buffer_.size());
  return take(find_cut(std::string_view(buffer_).substr(0, chunk_bytes_)));
}

std::optional<TextChunk> TextSource::next_lines() {
  fill(chunk_bytes_);
  while (!at_end_ && buffer_.find('\n') == std::string::npos) {
    if (buffer_.size() >= kMaxLineBytes) {
      throw UserError(
          fmt::format("{}:{}: the line is longer than {} bytes; split the document, or store it as .txt",
                      files_[file_].path.string(), line_, kMaxLineBytes));
    }
    fill(2 * buffer_.size());
  }
  if (buffer_.empty()) return std::nullopt;
  TextChunk chunk = take(at_end_ ? buffer_.size() : buffer_.rfind('\n') + 1);
  line_ += std::count(chunk.bytes.begin(), chunk.bytes.end(), '\n');
  return chunk;
}

void for_each_piece(const TextChunk& chunk, const std::function<void(const TextPiece&)>& visit) {
  if (chunk.file->format == TextFormat::plain) {
    visit({chunk.bytes, chunk.begins_document, chunk.ends_document});
    return;
  }
  std::string_view rest = chunk.bytes;
  for (int64_t number = chunk.first_line; !rest.empty(); ++number) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    if (blank(line)) continue;
    const std::string text = text_of_line(chunk, line, number);
    visit({text, true, true});
  }
}

}  // namespace titan
