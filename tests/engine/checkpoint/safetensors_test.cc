#include "engine/checkpoint/safetensors.h"

#include "kernels/base/error.h"
#include "tests/engine/checkpoint/fixture.h"
#include "tests/support/temp_dir.h"

#include <catch2/catch.hpp>

#include <cstring>
#include <fstream>
#include <random>

using namespace titan;
using namespace titan::test;
using Catch::Contains;

namespace {

std::vector<std::byte> counting_bytes(int64_t count) {
  std::vector<std::byte> bytes(static_cast<size_t>(count));
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 7 + 3);
  return bytes;
}

void write_text(const std::filesystem::path& path, const std::string& text) {
  std::filesystem::remove(path);  // truncating instead would make some file systems flush
  std::ofstream(path, std::ios::binary) << text;
}

std::string file_of(const std::string& header, size_t data_bytes) {
  const uint64_t length = header.size();
  return std::string(reinterpret_cast<const char*>(&length), 8) + header + std::string(data_bytes, 'x');
}

}  // namespace

TEST_CASE("safetensors: what is written is read") {
  const TempDir folder;
  std::vector<TensorEntry> entries{
      {"a", StoredType::f32, {3, 5}, 0, 0},  {"b", StoredType::bf16, {7}, 0, 0},
      {"c", StoredType::f16, {2, 2}, 0, 0},  {"d", StoredType::i32, {3}, 0, 0},
      {"e", StoredType::i64, {1, 2}, 0, 0},  {"f", StoredType::u8, {5}, 0, 0},
      {"scalar", StoredType::f32, {}, 0, 0}, {"none", StoredType::f32, {0, 4}, 0, 0}};
  assign_offsets(entries);
  const auto data = counting_bytes(entries.back().offset + entries.back().bytes);
  SafetensorsWriter writer(folder / "x.safetensors", entries, {{"format", "pt"}, {"quote", "\"\n"}});
  for (size_t at = 0; at < data.size(); at += 11)
    writer.write(std::span(data).subspan(at, std::min<size_t>(11, data.size() - at)));
  writer.finish();

  const SafetensorsReader reader(folder / "x.safetensors");
  CHECK(reader.metadata() == TensorMetadata{{"format", "pt"}, {"quote", "\"\n"}});
  CHECK(reader.data_begin() % 8 == 0);
  REQUIRE(reader.tensors().size() == entries.size());
  for (const TensorEntry& entry : entries) {
    CAPTURE(entry.name);
    const TensorEntry* found = reader.find(entry.name);
    REQUIRE(found != nullptr);
    CHECK(found->type == entry.type);
    CHECK(found->shape == entry.shape);
    const auto bytes = reader.bytes(*found);
    REQUIRE(static_cast<int64_t>(bytes.size()) == entry.bytes);
    CHECK(std::memcmp(bytes.data(), data.data() + entry.offset, bytes.size()) == 0);
  }
  CHECK(reader.find("absent") == nullptr);
}

TEST_CASE("safetensors: an existing file is never overwritten") {
  const TempDir folder;
  write_text(folder / "x.safetensors", "precious");
  CHECK_THROWS_WITH(SafetensorsWriter(folder / "x.safetensors", {}, {}), Contains("x.safetensors"));
  CHECK(read_text(folder / "x.safetensors") == "precious");
}

TEST_CASE("safetensors: the writer insists on the described bytes") {
  const TempDir folder;
  SafetensorsWriter writer(folder / "x.safetensors", {{"a", StoredType::u8, {4}, 0, 0}}, {});
  writer.write(counting_bytes(3));
  CHECK_THROWS_AS(writer.finish(), InternalError);
  CHECK_THROWS_AS(writer.write(counting_bytes(2)), InternalError);
}

TEST_CASE("safetensors: malformed files are user errors that name the file") {
  const std::string a4 = R"("a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]})";
  struct Row {
    const char* what;
    std::string content;
    const char* message;
  };
  const std::vector<Row> rows{
      {"empty", "", "0 bytes"},
      {"no length", "abc", "3 bytes"},
      {"header longer than the file", std::string("\xff\0\0\0\0\0\0\0{}", 10), "255 bytes"},
      {"huge header", std::string("\xff\xff\xff\xff\xff\xff\xff\xff{}", 10), "18446744073709551615"},
      {"not JSON", file_of("{", 0), "JSON"},
      {"not UTF-8", file_of("{\"\xff\":1}", 0), "JSON"},
      {"not an object", file_of("[]", 0), "object"},
      {"deeply nested", file_of(std::string(100000, '['), 0), "nested deeper than 20 levels"},
      {"deeply nested shape",
       file_of(R"({"a":{"dtype":"F32","data_offsets":[0,4],"shape":)" + std::string(50000, '[') +
                   std::string(50000, ']') + "}}",
               4),
       "nested deeper than 20 levels"},
      {"tensor not an object", file_of(R"({"a":1})", 0), "tensor a"},
      {"missing shape", file_of(R"({"a":{"dtype":"F32","data_offsets":[0,4]}})", 4), "needs dtype"},
      {"extra key", file_of(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"x":1}})", 4),
       "needs dtype"},
      {"unknown dtype", file_of(R"({"a":{"dtype":"F99","shape":[1],"data_offsets":[0,4]}})", 4), "F99"},
      {"dtype not a string", file_of(R"({"a":{"dtype":7,"shape":[1],"data_offsets":[0,4]}})", 4), "dtype 7"},
      {"shape not a list", file_of(R"({"a":{"dtype":"F32","shape":1,"data_offsets":[0,4]}})", 4), "shape 1"},
      {"negative size", file_of(R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", 4), "[-1]"},
      {"fractional size", file_of(R"({"a":{"dtype":"F32","shape":[1.5],"data_offsets":[0,4]}})", 4), "[1.5]"},
      {"size overflow",
       file_of(R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", 0),
       "4294967296"},
      {"size beyond int64",
       file_of(R"({"a":{"dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,4]}})", 4),
       "18446744073709551615"},
      {"one offset", file_of(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4]}})", 4),
       "data_offsets [4]"},
      {"offsets reversed", file_of(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", 4), "[4,0]"},
      {"wrong size", file_of(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4), "do not hold"},
      {"truncated data", file_of("{" + a4 + "}", 3), "should have"},
      {"trailing data", file_of("{" + a4 + "}", 5), "should have"},
      {"overlap", file_of("{" + a4 + R"(,"b":{"dtype":"F32","shape":[1],"data_offsets":[2,6]}})", 6),
       "overlap"},
      {"hole", file_of("{" + a4 + R"(,"b":{"dtype":"F32","shape":[1],"data_offsets":[8,12]}})", 12), "hole"},
      {"duplicate name", file_of("{" + a4 + "," + a4 + "}", 4), "twice"},
      {"metadata not text", file_of(R"({"__metadata__":{"a":1}})", 0), "__metadata__.a"},
      {"metadata not an object", file_of(R"({"__metadata__":[]})", 0), "__metadata__"},
  };
  for (const Row& row : rows) {
    const TempDir folder;
    write_text(folder / "bad.safetensors", row.content);
    CAPTURE(row.what);
    CHECK_THAT(user_error([&] { SafetensorsReader reader(folder / "bad.safetensors"); }),
               Contains("bad.safetensors") && Contains(row.message));
  }
}

TEST_CASE("safetensors: random damage to a header never crashes the reader") {
  const TempDir folder;
  const std::string good = file_of(
      R"({"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},"b":{"dtype":"U8","shape":[4],"data_offsets":[24,28]}})",
      28);
  std::mt19937 random(7);
  int opened = 0;
  for (int round = 0; round < 2000; ++round) {
    std::string bad = good;
    for (unsigned n = random() % 4 + 1; n > 0; --n)
      bad[random() % (bad.size() - 28)] = static_cast<char>(random());
    if (random() % 4 == 0) bad.resize(random() % bad.size());
    write_text(folder / "fuzz", bad);
    try {
      const SafetensorsReader reader(folder / "fuzz");
      for (const TensorEntry& tensor : reader.tensors())
        REQUIRE(reader.bytes(tensor).size() == static_cast<size_t>(tensor.bytes));
      ++opened;
    } catch (const UserError&) {
    }
  }
  CHECK(opened < 2000);
}

TEST_CASE("safetensors: folders and absent files are user errors") {
  const TempDir folder;
  CHECK_THROWS_WITH(SafetensorsReader(folder.path()), Contains(folder.path().string()));
  CHECK_THROWS_WITH(SafetensorsReader(folder / "absent"), Contains("absent") && Contains("No such file"));
}
