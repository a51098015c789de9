#include "tests/engine/data/data_files.h"

#include "engine/data/token_shard.h"

#include <zlib.h>
#include <zstd.h>

#include <fstream>
#include <random>
#include <sstream>

namespace titan::test {

void write_file(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream out(path, std::ios::binary);
  out << bytes;
  if (!out.flush()) throw std::runtime_error("cannot write " + path.string());
}

std::string read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

std::string gzip(const std::string& text) {
  z_stream stream{};
  deflateInit2(&stream, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

std::string zstd(const std::string& text) {
  std::string out(ZSTD_compressBound(text.size()), '\0');
  out.resize(ZSTD_compress(out.data(), out.size(), text.data(), text.size(), 3));
  return out;
}

std::string make_text(size_t bytes, uint32_t seed) {
  std::mt19937 random(seed);
  std::string out;
  while (out.size() < bytes) {
    for (uint32_t letters = 1 + random() % 9; letters > 0; --letters)
      out += static_cast<char>('a' + random() % 26);
    const uint32_t separator = random() % 40;
    out += separator == 0 ? ".\n\n  " : separator < 5 ? "\n" : separator == 5 ? " \xC3\xA9t\xC3\xA9 " : " ";
  }
  return out;
}

void write_counting_shard(const std::filesystem::path& path, int64_t first, int64_t tokens,
                          const std::vector<int64_t>& starts, int64_t vocab_size) {
  std::vector<int32_t> values;
  for (int64_t i = 0; i < tokens; ++i) values.push_back(static_cast<int32_t>((first + i) % vocab_size));
  ShardWriter writer(path, vocab_size, "counting");
  writer.append(values, starts, tokens);
  writer.finish();
}

}  // namespace titan::test
