// Whatever happens to a checkpoint's bytes, loading it is a UserError that names the file.
#include "engine/checkpoint/manifest.h"
#include "engine/checkpoint/report.h"
#include "tests/engine/checkpoint/fixture.h"
#include "tests/support/temp_dir.h"

#include <catch2/catch.hpp>

#include <fstream>

using namespace titan;
using namespace titan::test;
using Catch::Contains;
namespace fs = std::filesystem;

namespace {

using Mutation = std::function<void(const fs::path& checkpoint)>;

fs::path data_file(const fs::path& checkpoint) { return checkpoint / "rank-0.safetensors"; }
fs::path manifest_file(const fs::path& checkpoint) { return checkpoint / kManifestName; }

void write_text(const fs::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

/// Flips a bit at `where` (0 to 1) of the file.
Mutation flip(fs::path (*file)(const fs::path&), double where, int bit) {
  return [=](const fs::path& checkpoint) {
    std::string text = read_text(file(checkpoint));
    text[static_cast<size_t>(where * static_cast<double>(text.size() - 1))] ^= static_cast<char>(1 << bit);
    write_text(file(checkpoint), text);
  };
}

Mutation truncate(fs::path (*file)(const fs::path&), double where) {
  return [=](const fs::path& checkpoint) {
    fs::resize_file(file(checkpoint),
                    static_cast<uintmax_t>(where * static_cast<double>(fs::file_size(file(checkpoint)))));
  };
}

/// A manifest with a right hash and a wrong value.
Mutation edit(std::function<void(Manifest&)> change) {
  return [=](const fs::path& checkpoint) {
    Manifest manifest = read_manifest(checkpoint);
    change(manifest);
    write_text(manifest_file(checkpoint), to_json(manifest));
  };
}

Mutation edit_tensor(std::function<void(StoredTensor&)> change) {
  return edit([=](Manifest& manifest) { change(manifest.files[0].tensors[3]); });
}

Mutation replace(std::string from, std::string to) {
  return [=](const fs::path& checkpoint) {
    std::string text = read_text(manifest_file(checkpoint));
    REQUIRE(text.find(from) != std::string::npos);
    text.replace(text.find(from), from.size(), to);
    write_text(manifest_file(checkpoint), text);
  };
}

struct Row {
  std::string what;
  Mutation mutate;
  std::string file;  ///< that the message names
};

std::vector<Row> table() {
  constexpr int64_t kHuge = int64_t{1} << 62;
  std::vector<Row> rows{
      {"data file missing", [](const fs::path& c) { fs::remove(data_file(c)); }, "rank-0.safetensors"},
      {"manifest missing", [](const fs::path& c) { fs::remove(manifest_file(c)); }, "titan.json"},
      {"checkpoint missing", [](const fs::path& c) { fs::remove_all(c); }, "step-1"},
      {"data file is a folder",
       [](const fs::path& c) { fs::remove(data_file(c)), fs::create_directory(data_file(c)); },
       "rank-0.safetensors"},
      {"data file has a byte more",
       [](const fs::path& c) { fs::resize_file(data_file(c), fs::file_size(data_file(c)) + 1); },
       "rank-0.safetensors"},
      {"data file of zeros",
       [](const fs::path& c) {
         const auto n = fs::file_size(data_file(c));
         write_text(data_file(c), std::string(n, '\0'));
       },
       "rank-0.safetensors"},
      {"manifest empty", [](const fs::path& c) { write_text(manifest_file(c), ""); }, "titan.json"},
      {"manifest null", [](const fs::path& c) { write_text(manifest_file(c), "null"); }, "titan.json"},
      {"manifest a list", [](const fs::path& c) { write_text(manifest_file(c), "[]"); }, "titan.json"},
      {"manifest of nests", [](const fs::path& c) { write_text(manifest_file(c), std::string(200000, '[')); },
       "titan.json"},
      {"manifest of closed nests",
       [](const fs::path& c) {
         write_text(manifest_file(c),
                    R"({"format":"titan checkpoint","version":1,"hash":"0123456789abcdef","content":)" +
                        std::string(100000, '[') + std::string(100000, ']') + "}");
       },
       "titan.json is damaged: nested deeper than 100 levels"},
      {"other format", replace("titan checkpoint", "other checkpoint"), "titan.json"},
      {"other version", replace("\"version\":1", "\"version\":2"), "titan.json"},
      {"version not a number", replace("\"version\":1", "\"version\":{}"), "titan.json"},
      {"version not whole", replace("\"version\":1", "\"version\":1.5"), "titan.json"},
      {"hash not hexadecimal", replace("\"hash\":\"", "\"hash\":\"zz"), "titan.json"},
      {"step changed without its hash", replace("\"step\":1", "\"step\":7"), "titan.json"},
      {"key renamed without its hash", replace("\"samples_consumed\"", "\"samples\""), "titan.json"},
      {"negative step", edit([](Manifest& m) { m.run.step = -1; }), "titan.json"},
      {"path out of the folder", edit([](Manifest& m) { m.files[0].name = "../rank-0.safetensors"; }),
       "titan.json"},
      {"file of another name", edit([](Manifest& m) { m.files[0].name = "rank-7.safetensors"; }),
       "rank-7.safetensors"},
      {"huge header", edit([](Manifest& m) { m.files[0].data_begin = kHuge; }), "titan.json"},
      {"huge data", edit([](Manifest& m) { m.files[0].data_bytes = kHuge; }), "titan.json"},
      {"block size 0", edit([](Manifest& m) { m.files[0].block_bytes = 0; }), "titan.json"},
      {"huge block size", edit([](Manifest& m) { m.files[0].block_bytes = kHuge; }), "titan.json"},
      {"a hash too few", edit([](Manifest& m) { m.files[0].block_hashes.pop_back(); }), "titan.json"},
      {"a wrong block hash", edit([](Manifest& m) { m.files[0].block_hashes[2] ^= 1; }),
       "rank-0.safetensors"},
      {"a wrong header hash", edit([](Manifest& m) { m.files[0].header_hash ^= 1; }), "rank-0.safetensors"},
      {"tensor beyond the file", edit_tensor([](StoredTensor& t) { t.offset = int64_t{1} << 20; }),
       "titan.json"},
      {"tensor at a negative place", edit_tensor([](StoredTensor& t) { t.offset = -4; }), "titan.json"},
      {"tensor at an odd place", edit_tensor([](StoredTensor& t) { t.offset += 1; }), "titan.json"},
      {"tensor of integers", edit_tensor([](StoredTensor& t) { t.type = StoredType::i64; }), "titan.json"},
      {"other shape", edit_tensor([](StoredTensor& t) { t.piece.global_shape[0] += 1; }), "step-1"},
      {"huge shape", edit_tensor([](StoredTensor& t) {
         t.piece = whole_piece(t.piece.parameter, {kHuge, 1});
       }),
       "titan.json"},
      {"shape that overflows", edit_tensor([](StoredTensor& t) {
         t.piece.global_shape = {kHuge, kHuge};
       }),
       "titan.json"},
      {"no shape", edit_tensor([](StoredTensor& t) { t.piece.global_shape = {}; }), "titan.json"},
      {"box outside", edit_tensor([](StoredTensor& t) { t.piece.box.offset[0] = 1; }), "titan.json"},
      {"empty box", edit_tensor([](StoredTensor& t) {
         t.piece.box.size = {0, 0};
         t.piece.flat_end = 0;
       }),
       "step-1"},
      {"range outside", edit_tensor([](StoredTensor& t) { t.piece.flat_end += 1; }), "titan.json"},
      {"range cut", edit_tensor([](StoredTensor& t) { t.piece.flat_end -= 1; }), "step-1"},
      {"tensor gone", edit([](Manifest& m) { m.files[0].tensors.pop_back(); }), "step-1"},
      {"tensor twice, other shape", edit([](Manifest& m) {
         m.files[0].tensors.push_back({whole_piece(m.files[0].tensors[3].piece.parameter, {1, 1}),
                                       m.files[0].tensors[3].kind, StoredType::f32, 0});
       }),
       "step-1"},
  };
  for (const double where : {0.0, 0.0002, 0.01, 0.03, 0.2, 0.5, 0.77, 1.0})
    for (const int bit : {0, 7})
      rows.push_back(
          {fmt::format("data bit {} at {}", bit, where), flip(data_file, where, bit), "rank-0.safetensors"});
  for (const double where : {0.0, 0.005, 0.02, 0.3, 0.6, 0.9})
    rows.push_back({fmt::format("manifest bit at {}", where), flip(manifest_file, where, 1), "titan.json"});
  for (const double where : {0.0, 0.0001, 0.005, 0.04, 0.5, 0.9999}) {
    rows.push_back({fmt::format("data cut at {}", where), truncate(data_file, where), "rank-0.safetensors"});
    rows.push_back(
        {fmt::format("manifest cut at {}", where), truncate(manifest_file, where * 0.99), "titan.json"});
  }
  return rows;
}

}  // namespace

TEST_CASE("damage of any kind is a user error that names the file") {
  const TempDir folder;
  save_small(folder / "good", 1);
  for (const Row& row : table()) {
    CAPTURE(row.what);
    const fs::path bad = folder / "bad";
    fs::remove_all(bad);
    fs::copy(folder / "good", bad, fs::copy_options::recursive);
    row.mutate(bad / "step-1");
    CHECK_THAT(user_error([&] { load_small(bad / "step-1", 1); }), Contains(row.file));
    user_error([&] { verify_checkpoint(bad / "step-1"); });
    user_error([&] { inspect_checkpoint(bad / "step-1"); });
    user_error([&] { list_checkpoints(bad); });
  }
}

TEST_CASE("every single byte of the manifest matters or changes nothing") {
  const TempDir folder;
  const fs::path checkpoint = save_small(folder.path(), 1).path;
  const std::string good = read_text(manifest_file(checkpoint));
  for (size_t at = 0; at < good.size(); at += 3) {
    std::string text = good;
    text[at] ^= 4;
    std::string outcome;
    const std::string error = user_error([&] { outcome = to_json(parse_manifest(text, "titan.json")); });
    REQUIRE((outcome == good || error.find("titan.json") != std::string::npos));
  }
}

TEST_CASE("random bytes are no manifest") {
  std::mt19937 random(5);
  for (int round = 0; round < 500; ++round) {
    std::string text(random() % 200, '\0');
    for (char& c : text) c = static_cast<char>(random());
    CHECK_THROWS_AS(parse_manifest(text, "titan.json"), DamagedCheckpoint);
  }
}
