// Text files, compressed files and token shards for the data tests.
#pragma once

#include "kernels/base/error.h"

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace titan::test {

void write_file(const std::filesystem::path& path, const std::string& bytes);
std::string read_file(const std::filesystem::path& path);
std::string gzip(const std::string& text);
std::string zstd(const std::string& text);

/// About `bytes` of words, in lines and paragraphs; equal seeds give equal text.
std::string make_text(size_t bytes, uint32_t seed);

/// A shard whose token i is (first + i) % vocab_size, with documents starting at `starts`.
void write_counting_shard(const std::filesystem::path& path, int64_t first, int64_t tokens,
                          const std::vector<int64_t>& starts, int64_t vocab_size = 100000);

/// The message of the UserError that `call` throws; "" when it throws none.
template <class Call>
std::string error_of(Call&& call) {
  try {
    call();
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

}  // namespace titan::test
