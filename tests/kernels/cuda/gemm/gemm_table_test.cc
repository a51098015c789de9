// Keys of products, and the table that is kept with a run.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>
#include <sstream>

#include "kernels/base/error.h"
#include "kernels/cuda/gemm/gemm_table.h"

namespace titan::cuda {
namespace {

using Catch::Contains;

GemmKey example() {
  return {.m = 8192,
          .n = 4096,
          .k = 1024,
          .a = DType::bf16,
          .b = DType::bf16,
          .c = DType::f32,
          .transpose_b = true,
          .a_pitch = 1024,
          .b_pitch = 1032,
          .c_pitch = 4096,
          .a_alignment = 16,
          .b_alignment = 8,
          .c_alignment = 4,
          .adds = true,
          .workspace_bytes = 32 << 20,
          .multiprocessors = 120};
}

/// The example with one field changed, for each field.
std::vector<GemmKey> variants() {
  const std::function<void(GemmKey&)> changes[] = {
      [](GemmKey& key) { ++key.m; },
      [](GemmKey& key) { ++key.n; },
      [](GemmKey& key) { ++key.k; },
      [](GemmKey& key) { key.a = DType::f32; },
      [](GemmKey& key) { key.a = DType::f8e4m3; },
      [](GemmKey& key) { key.a = DType::f8e5m2; },
      [](GemmKey& key) { key.b = DType::f32; },
      [](GemmKey& key) { key.c = DType::bf16; },
      [](GemmKey& key) { key.transpose_a = true; },
      [](GemmKey& key) { key.transpose_b = false; },
      [](GemmKey& key) { ++key.a_pitch; },
      [](GemmKey& key) { ++key.b_pitch; },
      [](GemmKey& key) { ++key.c_pitch; },
      [](GemmKey& key) { key.a_alignment = 2; },
      [](GemmKey& key) { key.b_alignment = 2; },
      [](GemmKey& key) { key.c_alignment = 2; },
      [](GemmKey& key) { key.adds = false; },
      [](GemmKey& key) { key.scales = GemmScales::tensor; },
      [](GemmKey& key) { key.scales = GemmScales::rows; },
      [](GemmKey& key) { key.fast_accumulation = true; },
      [](GemmKey& key) { key.workspace_bytes = 0; },
      [](GemmKey& key) { key.multiprocessors = 0; },
  };
  std::vector<GemmKey> keys;
  for (const auto& change : changes) change(keys.emplace_back(example()));
  return keys;
}

GemmTable example_table() {
  GemmTable table{.device = "NVIDIA H200", .cublaslt_version = 130100, .algorithms = {}};
  std::uint64_t word = 0;
  for (const GemmKey& key : variants())
    for (std::uint64_t& part : table.algorithms[key]) part = word += 0x9e3779b97f4a7c15u;
  return table;
}

/// `text` with the first `from` replaced.
std::string with(std::string text, const std::string& from, const std::string& to) {
  return text.replace(text.find(from), from.size(), to);
}

TEST_CASE("keys differ by each field, and their texts too", "[gemm]") {
  std::set<GemmKey> keys{example()};
  std::set<std::string> texts{to_text(example())};
  for (const GemmKey& key : variants()) {
    INFO(to_text(key));
    CHECK(keys.insert(key).second);
    CHECK(texts.insert(to_text(key)).second);
    CHECK(parse_gemm_key(to_text(key)) == key);
  }
  std::istringstream columns(key_columns()), fields(to_text(example()));
  const auto words = [](std::istringstream& in) {
    return std::distance(std::istream_iterator<std::string>(in), {});
  };
  CHECK(words(columns) == words(fields));
}

TEST_CASE("the alignment of an address is at most 16", "[gemm]") {
  const auto of = [](std::uintptr_t address) { return alignment_of(reinterpret_cast<const void*>(address)); };
  CHECK(of(0x1000) == 16);
  CHECK(of(0x1010) == 16);
  CHECK(of(0x1008) == 8);
  CHECK(of(0x1004) == 4);
  CHECK(of(0x1006) == 2);
  CHECK(of(0x1001) == 1);
}

TEST_CASE("a table is the same after saving and loading", "[gemm]") {
  const std::filesystem::path path = std::filesystem::temp_directory_path() / "titan_gemm_table_test.txt";
  for (const GemmTable& table :
       {example_table(), GemmTable{.device = "", .cublaslt_version = 0, .algorithms = {}}}) {
    save(table, path);
    CHECK(load_gemm_table(path) == table);
  }
  std::filesystem::remove(path);
}

TEST_CASE("a table that is not one is an error that says where", "[gemm]") {
  const std::string text = to_text(example_table());
  CHECK(parse_gemm_table(text, "t") == example_table());
  const auto fails = [](const std::string& broken, const std::string& message) {
    CHECK_THROWS_WITH(parse_gemm_table(broken, "t"), Contains(message) && Contains("delete the file"));
    CHECK_THROWS_AS(parse_gemm_table(broken, "t"), UserError);
  };
  fails("", "t:0: 'titan gemm table 1' is missing");
  fails(with(text, "table 1", "table 10"), "t:1: this version");
  fails(with(text, "device", "machine"), "t:2: 'device ' is missing");
  fails(with(text, "130100", "13.1"), "t:3: the version is not a number");
  fails(with(text, "transpose_a", "flip_a"), "t:4:");
  fails(with(text, "\n8192 ", "\nmany "), ": m is 'many'");
  fails(with(text, "bf16", "bf17"), ": b is 'bf17'");
  fails(with(text, " = ", " : "), "t:4:");
  fails(text + "8192 1 1 = 0\n", ": a is missing");
  fails(text + to_text(example()) + " = 1 2 3 4 5 6 7\n", "not 8 hexadecimal");
  fails(text + to_text(example()) + " = 1 2 3 4 5 6 7 8 9\n", "more than 8");
  fails(text + to_text(example()) + " 5 = 1 2 3 4 5 6 7 8\n", "'5' is too much");
  fails(text + "nonsense", "there is no ' = '");
}

TEST_CASE("files that cannot be read or written are errors", "[gemm]") {
  CHECK_THROWS_AS(load_gemm_table("/nonexistent/gemm_table.txt"), UserError);
  CHECK_THROWS_AS(save(example_table(), "/nonexistent/gemm_table.txt"), UserError);
}

}  // namespace
}  // namespace titan::cuda
