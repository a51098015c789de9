#include "engine/data/text_source.h"

#include "engine/tokenizer/tokenizer.h"
#include "tests/engine/data/data_files.h"
#include "tests/support/temp_dir.h"

#include <catch2/catch.hpp>

#include <random>

using namespace titan;
using namespace titan::test;
using Catch::Contains;

namespace {

struct Document {
  std::string text;
  int pieces = 0;
};

std::vector<Document> documents_of(const std::vector<std::string>& paths, size_t chunk_bytes = kChunkBytes) {
  const TextFiles files = expand_text_files(paths);
  TextSource source(files.files, chunk_bytes);
  std::vector<Document> out;
  bool open = false;
  while (std::optional<TextChunk> chunk = source.next()) {
    for_each_piece(*chunk, [&](const TextPiece& piece) {
      REQUIRE(piece.begins_document != open);
      if (piece.begins_document) out.emplace_back();
      out.back().text += piece.text;
      ++out.back().pieces;
      open = !piece.ends_document;
    });
  }
  REQUIRE(!open);
  return out;
}

std::vector<std::string> texts_of(const std::string& path, size_t chunk_bytes = kChunkBytes) {
  std::vector<std::string> out;
  for (const Document& document : documents_of({path}, chunk_bytes)) out.push_back(document.text);
  return out;
}

std::string source_error(const std::string& path, size_t chunk_bytes = kChunkBytes) {
  return error_of([&] { documents_of({path}, chunk_bytes); });
}

std::string base64(const std::string& bytes) {
  constexpr const char* kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t bits = 0;
    for (size_t j = i; j < i + 3; ++j)
      bits = bits << 8 | (j < bytes.size() ? static_cast<unsigned char>(bytes[j]) : 0u);
    for (size_t j = 0; j < 4; ++j) out += i + j <= bytes.size() ? kDigits[bits >> (18 - 6 * j) & 63] : '=';
  }
  return out;
}

/// A Llama 3 tokenizer.model of the single bytes and of every run of 2 or 3 white space characters or marks,
/// so that nearly every wrong cut shows in the ids.
std::string whitespace_ranks() {
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
  const std::string characters = "\n\r\t !a1";
  for (const char a : characters) {
    for (const char b : characters) tokens.push_back({a, b});
  }
  for (const char a : characters) {
    for (const char b : characters) {
      for (const char c : characters) tokens.push_back({a, b, c});
    }
  }
  std::string out;
  for (size_t rank = 0; rank < tokens.size(); ++rank)
    out += fmt::format("{} {}\n", base64(tokens[rank]), rank);
  return out;
}

}  // namespace

TEST_CASE("every compression gives the same bytes, in any chunk size") {
  const TempDir dir;
  const std::string text = make_text(700'000, 1);
  write_file(dir / "a.txt", text);
  write_file(dir / "a.txt.gz", gzip(text));
  write_file(dir / "a.txt.zst", zstd(text));
  write_file(dir / "members.txt.gz",
             gzip(text.substr(0, 1000)) + gzip(text.substr(1000)) + std::string(512, '\0'));
  write_file(dir / "frames.txt.zst", zstd(text.substr(0, 300'000)) + zstd(text.substr(300'000)));
  for (const char* name : {"a.txt", "a.txt.gz", "a.txt.zst", "members.txt.gz", "frames.txt.zst"}) {
    INFO(name);
    CHECK(texts_of(dir / name) == std::vector{text});
    CHECK(texts_of(dir / name, 4096) == std::vector{text});
  }
}

TEST_CASE("a long plain file is one document of several pieces") {
  const TempDir dir;
  write_file(dir / "a.txt", make_text(10'000, 2));
  const std::vector<Document> documents = documents_of({(dir / "a.txt").string()}, 1000);
  REQUIRE(documents.size() == 1);
  CHECK(documents[0].pieces > 9);
  for (const size_t size : {999u, 1000u, 1001u, 2000u}) {
    write_file(dir / "b.txt", make_text(size, 3).substr(0, size));
    CHECK(documents_of({(dir / "b.txt").string()}, 1000).size() == 1);
  }
}

TEST_CASE("cuts follow the rule") {
  CHECK(find_cut("one\ntwo three") == 4);
  CHECK(find_cut("one\ntwo\nthree") == 8);
  CHECK(find_cut("one\ntwo\n\n") == 4);  // the character after the last newlines is unknown, or a newline
  CHECK(find_cut("one\ntwo\n  three") == 4);  // white space runs stay whole
  CHECK(find_cut("one\r\ntwo\r\n") == 5);
  CHECK(find_cut("one\ntwo\n\xE3\x80\x80x") == 4);  // ideographic space
  CHECK(find_cut("one\ntwo\n\xC2\xA0x") == 4);      // no-break space
  CHECK(find_cut("one\ntwo\n\xE4\xBD\xA0x") == 8);
  CHECK(find_cut("one two three") == 7);
  CHECK(find_cut("one two  three") == 3);
  CHECK(find_cut("one two 33") == 3);
  CHECK(find_cut("abcdef") == 5);
  CHECK(find_cut("abc\xE4\xBD\xA0") == 3);
  CHECK(find_cut("\xE4\xBD\xA0") == 3);
  CHECK(find_cut("a") == 1);
}

TEST_CASE("the tokens of both sides of a cut are the tokens of the whole") {
  const TempDir dir;
  write_file(dir / "tokenizer.model", whitespace_ranks());
  const std::unique_ptr<Tokenizer> tokenizer = load_tokenizer(dir / "tokenizer.model");
  std::vector<std::string> parts{"a", "b c", "'s", "12", "!", " ", "  ", "\t", "\xC2\xA0", "\xE3\x80\x80"};
  const bool with_newlines = GENERATE(true, false);
  if (with_newlines) parts.insert(parts.end(), {"\n", "\n", "\r\n"});
  std::mt19937 random(5);
  std::string text;
  while (text.size() < 900) text += parts[random() % parts.size()];

  std::vector<int32_t> whole;
  tokenizer->encode(text, whole);
  for (size_t end = 100; end < text.size(); ++end) {
    const size_t cut = find_cut(std::string_view(text).substr(0, end));
    std::vector<int32_t> joined;
    tokenizer->encode(std::string_view(text).substr(0, cut), joined);
    tokenizer->encode(std::string_view(text).substr(cut), joined);
    INFO((with_newlines ? "with" : "without") << " newlines, cut at " << cut);
    REQUIRE((joined == whole));
  }
}

TEST_CASE("a line without any place to cut is still read whole") {
  const TempDir dir;
  const std::string text(3'000'000, 'x');
  write_file(dir / "a.txt", text);
  CHECK(texts_of(dir / "a.txt") == std::vector{text});
}

TEST_CASE("JSON lines: one document a line, blank lines skipped, last line without newline") {
  const TempDir dir;
  write_file(
      dir / "a.jsonl",
      "{\"text\": \"first\\nline\", \"id\": 1}\r\n\n  \n{\"id\": 2, \"text\": \"\"}\n{\"text\":\"\\u00e9\"}");
  for (const size_t chunk_bytes : {size_t{1}, size_t{20}, kChunkBytes}) {
    CHECK(texts_of(dir / "a.jsonl", chunk_bytes) == std::vector<std::string>{"first\nline", "", "\xC3\xA9"});
  }
}

TEST_CASE("JSON lines longer than a chunk") {
  const TempDir dir;
  const std::string huge(5'000'000, 'y');
  write_file(dir / "a.jsonl.gz",
             gzip("{\"text\": \"a\"}\n{\"text\": \"" + huge + "\"}\n{\"text\": \"b\"}\n"));
  CHECK(texts_of(dir / "a.jsonl.gz") == std::vector<std::string>{"a", huge, "b"});
}

TEST_CASE("a bad JSON line is named by file and line") {
  const TempDir dir;
  std::string good;
  for (int i = 0; i < 100; ++i) good += "{\"text\": \"line\"}\n";
  const auto error = [&](const std::string& line) {
    write_file(dir / "a.jsonl", good + line + "\n" + good);
    const std::string message = source_error(dir / "a.jsonl", 64);
    CHECK_THAT(message, Contains("a.jsonl:101: "));
    return message;
  };
  CHECK_THAT(error("{\"text\": \"unfinished"), Contains("not a JSON object on one line"));
  CHECK_THAT(error("plain words"), Contains("not a JSON object on one line"));
  CHECK_THAT(error("["), Contains("jq"));
  CHECK_THAT(error("[1, 2]"), Contains("a JSON array, not an object"));
  CHECK_THAT(error("{\"content\": \"x\"}"), Contains("no field \"text\""));
  CHECK_THAT(error("{\"text\": 5}"), Contains("is a number, not a string"));
  CHECK_THAT(error("{\"text\": \"\xFF\"}"), Contains("not a JSON object on one line"));
  CHECK_THAT(error("{\"text\": \"x\", \"n\": 1e999}"), Contains("number overflow"));
}

TEST_CASE("truncated and damaged compressed files are errors with path and offset") {
  const TempDir dir;
  const std::string text = make_text(300'000, 4);
  const std::string gz = gzip(text), zst = zstd(text);
  for (const size_t keep : {size_t{1}, size_t{9}, size_t{12}, gz.size() / 2, gz.size() - 9, gz.size() - 1}) {
    INFO(keep << " of " << gz.size());
    write_file(dir / "a.txt.gz", gz.substr(0, keep));
    CHECK_THAT(source_error(dir / "a.txt.gz"), Contains("a.txt.gz: byte") && Contains("truncated"));
  }
  for (const size_t keep : {size_t{1}, size_t{6}, zst.size() / 2, zst.size() - 1}) {
    INFO(keep << " of " << zst.size());
    write_file(dir / "a.txt.zst", zst.substr(0, keep));
    CHECK_THAT(source_error(dir / "a.txt.zst"), Contains("a.txt.zst: byte") && Contains("truncated"));
  }
  std::string damaged = gz;
  damaged[damaged.size() - 6] ^= 1;  // the CRC
  write_file(dir / "b.txt.gz", damaged);
  CHECK_THAT(source_error(dir / "b.txt.gz"), Contains("damaged gzip data"));
  write_file(dir / "c.txt.gz", "this is not gzip");
  CHECK_THAT(source_error(dir / "c.txt.gz"), Contains("damaged gzip data"));
  write_file(dir / "c.txt.zst", "this is not zstd");
  CHECK_THAT(source_error(dir / "c.txt.zst"), Contains("damaged zstd data"));
  write_file(dir / "d.txt.gz", gz + "garbage");
  CHECK_THAT(source_error(dir / "d.txt.gz"), Contains("gzip"));
}

TEST_CASE("compressed nothing is an error") {
  const TempDir dir;
  write_file(dir / "a.txt.gz", gzip(""));
  CHECK_THAT(source_error(dir / "a.txt.gz"), Contains("holds no text"));
  write_file(dir / "b.txt.zst", zstd(""));
  CHECK_THAT(source_error(dir / "b.txt.zst"), Contains("holds no text"));
}

TEST_CASE("progress reaches the size of the files") {
  const TempDir dir;
  write_file(dir / "a.txt.gz", gzip(make_text(100'000, 5)));
  write_file(dir / "b.txt", make_text(100'000, 6));
  const TextFiles files = expand_text_files(std::vector{dir.path().string()});
  TextSource source(files.files, 4096);
  int64_t last = 0;
  while (std::optional<TextChunk> chunk = source.next()) {
    CHECK(chunk->file_bytes_done >= last);
    last = chunk->file_bytes_done;
  }
  CHECK(last == files.files[0].bytes + files.files[1].bytes);
}
