// What is not as it should be, from the outside: one clear error with the place, the value and the fix, exit
// code 1 or 2, and every file that was there before is as it was. Rows that a library's own tests hold are
// not repeated here.
#include <catch2/catch.hpp>
#include <fstream>
#include <functional>
#include <random>
#include <sstream>

#include "engine/data/token_shard.h"
#include "tests/app/titan/run_titan.h"
#include "tests/engine/data/data_files.h"
#include "tests/support/temp_dir.h"

using namespace titan::test;
using Catch::Contains;
namespace fs = std::filesystem;

namespace {

using Words = std::vector<std::string>;
/// Breaks something in a folder of its own and gives titan's arguments.
using Make = std::function<Words(const fs::path& folder)>;

struct Row {
  const char* what;
  Make make;
  Words words;  ///< in the message
};

std::map<std::string, std::string> contents(const fs::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file()) files[entry.path().string()] = read_file(entry.path());
  return files;
}

/// Errors that were told: on stderr, or by `checkpoint verify` on stdout.
int errors_of(const Run& run) {
  int count = 0;
  std::istringstream lines(run.err + run.out);
  for (std::string line; std::getline(lines, line);)
    count += line.starts_with("titan: ") || line.find(" problems in ") != line.npos;
  return count;
}

void check(const Row& row, int exit) {
  const TempDir folder;
  const Words arguments = row.make(folder.path());
  const auto before = contents(folder.path());
  const Run run = run_titan(arguments);
  INFO(row.what << "\n" << run.err << run.out);
  CHECK(run.exit == exit);
  CHECK(errors_of(run) == 1);
  for (const std::string& word : row.words) CHECK_THAT(run.err + run.out, Contains(word));
  for (const char* leak : {"check failed", "terminate", "exception", "std::", "filesystem error"})
    CHECK_THAT(run.err, !Contains(leak));
  for (const char c : run.err) CHECK((c == '\n' || (static_cast<unsigned char>(c) >= 0x20 && c != 0x7f)));
  CHECK(run.err.size() < 3000);
  const auto after = contents(folder.path());
  for (const auto& [path, bytes] : before) CHECK((after.contains(path) && after.at(path) == bytes));
}

std::string random_bytes(size_t size) {
  std::mt19937 random(3);
  std::string bytes(size, '\0');
  for (char& c : bytes) c = static_cast<char>(random());
  return bytes;
}

std::string utf16(const std::string& ascii) {
  std::string bytes = "\xff\xfe";
  for (const char c : ascii) bytes += {c, '\0'};
  return bytes;
}

// ---- recipes

Make recipe(std::string text, const char* command = "plan") {
  return [=](const fs::path& folder) -> Words {
    write_file(folder / "r.toml", text);
    return {command, (folder / "r.toml").string()};
  };
}

std::string custom(const std::string& model) {
  return "[model]\nflavor = \"custom\"\ntokenizer = \"byte\"\n" + model;
}

// ---- tokenizers

Make tokenizer(const std::string& name, std::string bytes) {
  return [=](const fs::path& folder) -> Words {
    write_file(folder / "text.txt", std::string(64, 'a') + "\n");
    write_file(folder / name, bytes);
    return {"data",
            "prepare",
            (folder / "text.txt").string(),
            "--tokenizer",
            (folder / name).string(),
            "--output",
            (folder / "cache").string()};
  };
}

/// A whole tokenizer.json with these members of its model, and this pattern to split by.
std::string tokenizer_json(const std::string& model, const std::string& pattern = "a+") {
  return R"({"pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "Split", "pattern": {"Regex": ")" +
         pattern +
         R"("}, "behavior": "Isolated"}, {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false}]},
         "model": {)" +
         model + "}}";
}

constexpr const char* kModel = R"("type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": [])";

// ---- text

Make text(const std::string& name, std::string bytes) {
  return [=](const fs::path& folder) -> Words {
    write_file(folder / name, bytes);
    return {"data", "prepare",  (folder / name).string(),   "--tokenizer",
            "byte", "--output", (folder / "cache").string()};
  };
}

std::string lines(int good, const std::string& bad) {
  std::string all;
  for (int i = 0; i < good; ++i) all += "{\"text\": \"line\"}\n";
  return all + bad + "\n{\"text\": \"line\"}\n";
}

/// Trains on a text.
Make train_on(std::string bytes) {
  return [=](const fs::path& folder) {
    Words arguments = small_run(folder);
    write_file(folder / "text.txt", bytes);
    return arguments;
  };
}

// ---- token shards

using Change = std::function<void(const fs::path& folder)>;

void write_shard(const fs::path& path, int64_t vocabulary = 258) {
  titan::ShardWriter writer(path, vocabulary, "byte-v1");
  std::vector<int32_t> tokens;
  for (int i = 0; i < 400; ++i) tokens.push_back(97 + i % 26);
  writer.append(tokens, std::vector<int64_t>{0, 100}, 400);
  writer.finish();
}

/// `titan data inspect --verify` of a shard that was changed.
Make shard(const std::function<void(std::string&)>& change, const char* option = "--verify") {
  return [=](const fs::path& folder) -> Words {
    write_shard(folder / "a.tokens");
    std::string bytes = read_file(folder / "a.tokens");
    change(bytes);
    write_file(folder / "a.tokens", bytes);
    return {"data", "inspect", (folder / "a.tokens").string(), option};
  };
}

/// Trains on a folder that `change` prepares.
Make train_on_folder(const Change& change) {
  return [=](const fs::path& folder) {
    fs::create_directory(folder / "data");
    change(folder / "data");
    return small_run(folder, {"--training.dataset_path=" + (folder / "data").string()});
  };
}

// ---- checkpoints

/// A finished small run.
const fs::path& trained() {
  static const TempDir folder;
  static const bool done = [] {
    const Run run = run_titan(small_run(folder.path()));
    INFO(run.err);
    REQUIRE(run.exit == 0);
    return true;
  }();
  REQUIRE(done);
  return folder.path();
}

/// Runs a command on a copy of the run's last checkpoint that was changed.
Make checkpoint(Words command, const Change& change) {
  return [=](const fs::path& folder) {
    const fs::path step = folder / "step-12";
    fs::copy(trained() / "out/checkpoint/step-12", step, fs::copy_options::recursive);
    change(step);
    Words arguments = command;
    for (std::string& word : arguments)
      if (word == "STEP") word = step.string();
    return arguments;
  };
}

const Words kGenerate{"generate", "STEP", "--prompt", "line", "--max-new-tokens", "1"};
const Words kVerify{"checkpoint", "verify", "STEP"};
const Words kInspect{"checkpoint", "inspect", "STEP"};

/// Goes on with the run after its only checkpoint was changed.
Make resume(const Change& change) {
  return [=](const fs::path& folder) {
    Words arguments = small_run(folder);
    fs::create_directories(folder / "out/checkpoint");
    fs::copy(trained() / "out/checkpoint/step-12", folder / "out/checkpoint/step-12",
             fs::copy_options::recursive);
    change(folder / "out/checkpoint/step-12");
    return arguments;
  };
}

/// Measures a text with the undamaged model.
Make evaluate(const std::string& name, std::string bytes, Words options = {}) {
  return [=](const fs::path& folder) {
    fs::copy(trained() / "out/checkpoint/step-12", folder / "step-12", fs::copy_options::recursive);
    if (!bytes.empty()) write_file(folder / name, bytes);
    Words arguments{"eval", (folder / "step-12").string(), "--data", (folder / name).string()};
    arguments.insert(arguments.end(), options.begin(), options.end());
    return arguments;
  };
}

Change flip(const char* file, double where) {
  return [=](const fs::path& step) {
    std::string bytes = read_file(step / file);
    bytes[static_cast<size_t>(where * static_cast<double>(bytes.size() - 1))] ^= 4;
    write_file(step / file, bytes);
  };
}

Change cut(const char* file, double where) {
  return [=](const fs::path& step) {
    fs::resize_file(step / file,
                    static_cast<uintmax_t>(where * static_cast<double>(fs::file_size(step / file))));
  };
}

Change replace(const std::string& from, const std::string& to) {
  return [=](const fs::path& step) {
    std::string bytes = read_file(step / "titan.json");
    REQUIRE(bytes.find(from) != bytes.npos);
    write_file(step / "titan.json", bytes.replace(bytes.find(from), from.size(), to));
  };
}

Change without(const char* file) {
  return [=](const fs::path& step) { fs::remove(step / file); };
}

Change as_file() {
  return [](const fs::path& step) {
    fs::remove_all(step);
    write_file(step, "x");
  };
}

Change nothing() {
  return [](const fs::path&) {};
}

constexpr const char* kData = "rank-0.safetensors";
constexpr const char* kManifest = "titan.json";

}  // namespace

TEST_CASE("bad recipes") {
  const std::string nests = "a = " + std::string(3000, '[') + std::string(3000, ']');
  const Row rows[] = {
      {"a binary",
       recipe("\x7f"
              "ELF" +
              random_bytes(4000)),
       {"r.toml:1:", "invalid TOML"}},
      {"UTF-16", recipe(utf16("[training]\nsteps = 5\n")), {"r.toml:1:", "invalid TOML"}},
      {"Latin-1", recipe("[job]\ndescription = \"caf\xe9\"\n"), {"r.toml:2:", "invalid TOML"}},
      {"a NUL", recipe(std::string("[training]\nsteps\0 = 5\n", 22)), {"r.toml:2:", "invalid TOML"}},
      {"old Mac line ends", recipe("[training]\rsteps = 5\r"), {"r.toml:1:", "invalid TOML"}},
      {"an opened bracket", recipe("[\n]\n"), {"r.toml:1:", "invalid TOML"}},
      {"JSON", recipe("{\"training\": {\"steps\": 5}}"), {"r.toml:1:1", "invalid TOML"}},
      {"YAML", recipe("training:\n  steps: 5\n"), {"r.toml:1:", "invalid TOML"}},
      {"a conflict left by a merge",
       recipe("<<<<<<< HEAD\n[training]\nsteps = 5\n=======\n"),
       {"r.toml:1:1", "invalid TOML"}},
      {"nested without end", recipe(nests), {"r.toml:1:", "invalid TOML"}},
      {"escapes for a terminal in a name",
       recipe("\"\\u001b[31mred\" = 1\n"),
       {"r.toml:1:1", "unknown key \\x1b[31mred"}},
      {"a value of 100 KB",
       recipe("[training]\nsteps = \"" + std::string(100'000, 'x') + "\"\n"),
       {"r.toml:2:9: training.steps = ", "bytes more", "expected an integer >= 1"}},
      {"a sequence of 2^63 - 1",
       recipe("[training]\nseq_len = 9223372036854775807\n"),
       {"r.toml:2:11: training.seq_len", "at most 2147483647"}},
      {"a model of 10^15 rows",
       recipe(custom("dim = 1000000000000000\nn_layers = 1\nn_heads = 1\n")),
       {"r.toml:4:7: model.dim", "at most 1048576"}},
      {"heads that do not divide",
       recipe(custom("dim = 32\nn_layers = 1\nn_heads = 5\nvocab_size = 258\n")),
       {"model.dim 32 is not divisible by model.n_heads 5"}},
      {"an odd head",
       recipe(custom("dim = 15\nn_layers = 1\nn_heads = 3\nvocab_size = 258\n")),
       {"model.head_dim is 5", "even"}},
      {"no vocabulary",
       recipe(custom("dim = 32\nn_layers = 1\nn_heads = 2\n")),
       {"model.vocab_size is 0", "at least 1"}},
      {"an unknown flavor", recipe("[model]\nflavor = \"9B\"\n"), {"model.flavor", "9B", "custom"}},
      {"a folder",
       [](const fs::path& f) {
         return Words{"train", f.string()};
       },
       {"a folder, not a recipe"}},
      {"a missing file",
       [](const fs::path& f) {
         return Words{"train", (f / "r.toml").string()};
       },
       {"r.toml: cannot read the recipe", "No such file"}},
      {"a name without end",
       [](const fs::path&) {
         return Words{"train", std::string(5000, 'r')};
       },
       {"cannot read the recipe", "name too long"}},
  };
  for (const Row& row : rows) check(row, 2);
}

TEST_CASE("bad tokenizers") {
  const Row rows[] = {
      {"empty", tokenizer("tokenizer.json", ""), {"tokenizer.json: not JSON at byte"}},
      {"a page of the web",
       tokenizer("tokenizer.json", "<!DOCTYPE html><html>Not found"),
       {"tokenizer.json: not JSON at byte 1"}},
      {"a pointer of Git LFS",
       tokenizer("tokenizer.json", "version https://git-lfs.github.com/spec/v1\noid sha256:0\n"),
       {"tokenizer.json: not JSON at byte"}},
      {"compressed", tokenizer("tokenizer.json", gzip("{}")), {"tokenizer.json: not JSON at byte"}},
      {"cut",
       tokenizer("tokenizer.json", tokenizer_json(kModel).substr(0, 200)),
       {"tokenizer.json: not JSON at byte"}},
      {"a string of 3 MB without end",
       tokenizer("tokenizer.json", "{\"model\": \"" + std::string(3'000'000, 'x')),
       {"tokenizer.json: not JSON at byte", "bytes more"}},
      {"WordPiece",
       tokenizer("tokenizer.json", tokenizer_json(R"("type": "WordPiece", "vocab": {"a": 0}, "merges": [])")),
       {"tokenizer.json: model.type is \"WordPiece\"", "only \"BPE\""}},
      {"no merges",
       tokenizer("tokenizer.json", tokenizer_json(R"("type": "BPE", "vocab": {"a": 0})")),
       {"tokenizer.json: model.merges is null", "expected a list"}},
      {"merges that are no list",
       tokenizer("tokenizer.json", tokenizer_json(R"("type": "BPE", "vocab": {"a": 0}, "merges": "a b")")),
       {"tokenizer.json: model.merges is \"a b\"", "expected a list"}},
      {"an id far off",
       tokenizer("tokenizer.json",
                 tokenizer_json(R"("type": "BPE", "vocab": {"a": 0, "b": 16000000}, "merges": [])")),
       {"the id of \"b\" is 16000000, far beyond its 2 tokens"}},
      {"an id twice",
       tokenizer("tokenizer.json",
                 tokenizer_json(R"("type": "BPE", "vocab": {"a": 0, "b": 0}, "merges": [])")),
       {"has id 0, which is taken"}},
      {"a pattern that is none",
       tokenizer("tokenizer.json", tokenizer_json(kModel, "(a")),
       {"pretokenizers[0].pattern", "regex \"(a\""}},
      {"a pattern that never ends",
       tokenizer("tokenizer.json", tokenizer_json(kModel, "(?:a|a)+[bc]")),
       {"the tokenizer's regex gave up at byte 0"}},
      {"Llama 2's model",
       tokenizer("tokenizer.model", "\n\x0e\n\x05<unk>\x15\0\0\0\0"),
       {"tokenizer.model: line 1 is not a token", "SentencePiece"}},
      {"a token of 3 KB",
       tokenizer("tokenizer.model", std::string(4096, 'A') + " 0\n"),
       {"tokenizer.model: line 1 is a token of 3072 bytes", "at most 1024"}},
      {"a broken config",
       [](const fs::path& f) {
         write_file(f / "tokenizer_config.json", "{\"bos_token\": ");
         return tokenizer("tokenizer.json", tokenizer_json(kModel))(f);
       },
       {"tokenizer_config.json: "}},
      {"a nested config",
       [](const fs::path& f) {
         write_file(f / "tokenizer_config.json",
                    "{\"bos_token\": " + std::string(50'000, '[') + std::string(50'000, ']') + "}");
         return tokenizer("tokenizer.json", tokenizer_json(kModel))(f);
       },
       {"tokenizer_config.json: nested deeper than 100 levels"}},
      {"a folder without one",
       [](const fs::path& f) {
         fs::create_directory(f / "empty");
         Words a = text("a.txt", "x")(f);
         a[4] = (f / "empty").string();
         return a;
       },
       {"holds neither a tokenizer.json nor a tokenizer.model"}},
      {"a name without end",
       [](const fs::path& f) {
         Words a = text("a.txt", "x")(f);
         a[4] = std::string(5000, 't');
         return a;
       },
       {"titan: ttt", "File name too long"}},
      {"text", tokenizer("vocab.txt", "a\nb\n"), {"vocab.txt: a tokenizer file ends in .json", ".model"}},
  };
  for (const Row& row : rows) check(row, 1);
}

TEST_CASE("bad text") {
  const std::string long_text = make_text(200'000, 1), gz = gzip(long_text), zst = zstd(long_text);
  const Row rows[] = {
      {"missing",
       [](const fs::path& f) {
         Words a = text("a.txt", "x")(f);
         a[2] += "x";
         return a;
       },
       {"a.txtx does not exist", "check the path"}},
      {"empty", text("a.txt", ""), {"a.txt is empty (0 bytes)", "remove it"}},
      {"a name without end",
       [](const fs::path& f) {
         Words a = text("a.txt", "x")(f);
         a[2] = std::string(5000, 't');
         return a;
       },
       {"File name too long"}},
      {"an unknown kind", text("a.docx", "PK"), {"a.docx: unknown suffix '.docx'", ".jsonl"}},
      {"Parquet", text("a.parquet", "PAR1"), {"a.parquet is a Parquet file", "to_json"}},
      {"gzip, cut",
       text("a.txt.gz", gz.substr(0, gz.size() / 2)),
       {"a.txt.gz: byte ", "truncated", "get the file again"}},
      {"gzip, a bit flipped",
       text("a.txt.gz",
            [&] {
              std::string b = gz;
              b[b.size() / 2] ^= 1;
              return b;
            }()),
       {"a.txt.gz: byte ", "damaged gzip data"}},
      {"gzip and then something else",
       text("a.txt.gz", gz + "something else"),
       {"a.txt.gz: byte ", "damaged gzip data (incorrect header check)"}},
      {"no gzip at all", text("a.txt.gz", long_text), {"a.txt.gz: byte ", "damaged gzip data"}},
      {"zstd, cut", text("a.txt.zst", zst.substr(0, zst.size() / 2)), {"a.txt.zst: byte ", "truncated"}},
      {"zstd, a bit flipped in the magic",
       text("a.txt.zst",
            [&] {
              std::string b = zst;
              b[1] ^= 1;
              return b;
            }()),
       {"a.txt.zst: byte ", "damaged zstd data"}},
      {"gzip under zstd's name", text("a.txt.zst", gz), {"a.txt.zst: byte ", "damaged zstd data"}},
      {"a line without the field",
       text("a.jsonl", lines(300, "{\"content\": \"x\"}")),
       {"a.jsonl:301: the object has no field \"text\""}},
      {"a broken line",
       text("a.jsonl", lines(70'000, "{\"text\": \"x\"")),
       {"a.jsonl:70001: not a JSON object on one line"}},
      {"a broken line, compressed",
       text("a.jsonl.zst", zstd(lines(70'000, "{\"text\": \"x\""))),
       {"a.jsonl.zst:70001: not a JSON object on one line"}},
      {"a line of 3 MB without end",
       text("a.jsonl", lines(2, "{\"text\": \"" + std::string(3'000'000, 'x'))),
       {"a.jsonl:3: not a JSON object on one line", "bytes more"}},
      {"an array", text("a.json", "[\n  {\"text\": \"x\"}\n]\n"), {"a.json:1: ", "jq -c"}},
      {"UTF-16 lines",
       text("a.jsonl", utf16("{\"text\": \"x\"}\n")),
       {"a.jsonl:1: not a JSON object on one line"}},
      {"binary lines", text("a.jsonl", random_bytes(10'000)), {"a.jsonl:1: not a JSON object on one line"}},
      {"blank lines", text("a.jsonl", "\n \n\n"), {"a.jsonl: no document in the data"}},
      {"an empty recipe, which names no tokenizer",
       recipe("", "train"),
       {"tokenizer: ", "does not exist", "set model.tokenizer"}},
      {"less than a sequence", train_on("short"), {"the data has 7 tokens", "33", "smaller seq_len"}},
      {"too little to hold any out",
       train_on(std::string(40, 'x')),
       {"1 sequence cannot be split", "more text"}},
  };
  for (const Row& row : rows) check(row, 1);
}

TEST_CASE("bad token shards") {
  const Row rows[] = {
      {"empty",
       shard([](std::string& b) { b.clear(); }),
       {"a.tokens: byte 0: 0 bytes", "titan data prepare"}},
      {"cut", shard([](std::string& b) { b.resize(500); }), {"a.tokens: byte 24: ", "titan data prepare"}},
      {"text under its name",
       shard([](std::string& b) { b.assign(1000, 'x'); }),
       {"a.tokens: byte 0: no magic TITANTOK"}},
      {"a bit of a token", shard([](std::string& b) { b[300] ^= 1; }), {"a.tokens: byte 160: content hash"}},
      {"a token above the vocabulary",
       shard([](std::string& b) { b[161] = '\x7f'; }, "--json"),
       {"a.tokens: byte 160: token 32", "the vocabulary has 258"}},
      {"a bit of the header", shard([](std::string& b) { b[30] ^= 1; }), {"a.tokens: byte 152: header hash"}},
      {"of the future",
       shard([](std::string& b) { b[8] = 9; }),
       {"format version 9, this titan reads version 1"}},
      {"of another tokenizer",
       train_on_folder([](const fs::path& f) {
         titan::ShardWriter w(f / "a.tokens", 258, "another");
         w.append(std::vector<int32_t>(99, 1), std::vector<int64_t>{0}, 99);
         w.finish();
       }),
       {"a.tokens was made by tokenizer another", "model.tokenizer"}},
      {"a list that names a missing one",
       train_on_folder([](const fs::path& f) {
         write_shard(f / "a.tokens");
         write_file(
             f / "manifest.json",
             R"({"chunks": 1, "shards": [{"file": "b.tokens", "tokens": 400, "documents": 2, "text_bytes": 400, "content_hash": 0}]})");
       }),
       {"missing or damaged", "titan data prepare"}},
      {"a list that is not JSON",
       train_on_folder([](const fs::path& f) {
         write_shard(f / "a.tokens");
         write_file(f / "manifest.json", "{");
       }),
       {"manifest.json", "titan data prepare"}},
      {"a list of none",
       train_on_folder([](const fs::path& f) {
         write_shard(f / "a.tokens");
         write_file(f / "manifest.json", R"({"chunks": 0, "shards": []})");
       }),
       {"manifest.json", "titan data prepare"}},
      {"half prepared",
       train_on_folder([](const fs::path& f) {
         write_shard(f / "a.tokens");
         write_file(f / "progress.json", "{}");
       }),
       {"preparation has not finished"}},
      {"shards and text",
       [](const fs::path& f) {
         write_shard(f / "a.tokens");
         return small_run(
             f, {"--training.dataset_path=" + (f / "a.tokens").string() + "," + (f / "text.txt").string()});
       },
       {"text.txt is text", "a.tokens is a token shard"}},
      {"a bigger vocabulary than the tokenizer's",
       train_on_folder([](const fs::path& f) { write_shard(f / "a.tokens", 300); }),
       {"a.tokens was made with a vocabulary of 300, the tokenizer has 258 ids"}},
  };
  for (const Row& row : rows) check(row, 1);
}

TEST_CASE("bad checkpoints") {
  const Row rows[] = {
      {"missing",
       checkpoint({"generate", "/nowhere/step-1", "--prompt", "x"}, nothing()),
       {"/nowhere/step-1"}},
      {"a file", checkpoint({"generate", "STEP", "--prompt", "x"}, as_file()), {"step-12: Not a directory"}},
      {"an empty folder",
       checkpoint(kGenerate,
                  [](const fs::path& s) {
                    fs::remove_all(s);
                    fs::create_directory(s);
                  }),
       {"step-12 is neither a checkpoint (it has no titan.json) nor a folder with one"}},
      {"a name without end",
       checkpoint({"generate", std::string(5000, 'c'), "--prompt", "x"}, nothing()),
       {"name too long"}},
      {"its list missing", checkpoint(kGenerate, without(kManifest)), {"step-12", "titan.json"}},
      {"its list a folder",
       checkpoint(kGenerate,
                  [](const fs::path& s) {
                    fs::remove(s / kManifest);
                    fs::create_directory(s / kManifest);
                  }),
       {"titan.json", "directory"}},
      {"its list empty", checkpoint(kGenerate, cut(kManifest, 0)), {"titan.json is damaged"}},
      {"its list cut", checkpoint(kGenerate, cut(kManifest, 0.6)), {"titan.json is damaged"}},
      {"its list with a bit flipped", checkpoint(kGenerate, flip(kManifest, 0.5)), {"titan.json is damaged"}},
      {"its list nested without end",
       checkpoint(
           kGenerate,
           [](const fs::path& s) {
             write_file(
                 s / kManifest,
                 R"({"format": "titan checkpoint", "version": 1, "hash": "0123456789abcdef", "content": )" +
                     std::string(100'000, '[') + std::string(100'000, ']') + "}");
           }),
       {"titan.json is damaged: nested deeper than 100 levels"}},
      {"its step changed by hand",
       checkpoint(kGenerate, replace("\"step\":12", "\"step\":13")),
       {"titan.json is damaged: the hash of its content"}},
      {"of the future",
       checkpoint(kGenerate, replace("\"version\":1", "\"version\":99")),
       {"it has version 99, this titan reads version 1"}},
      {"of another program",
       checkpoint(kGenerate, [](const fs::path& s) { write_file(s / kManifest, "{\"metadata\": {}}"); }),
       {"titan.json", "not the file of a titan checkpoint"}},
      {"its data missing", checkpoint(kGenerate, without(kData)), {"rank-0.safetensors", "No such file"}},
      {"its data cut",
       checkpoint(kGenerate, cut(kData, 0.5)),
       {"rank-0.safetensors is damaged: it has", "were saved"}},
      {"its data with a bit flipped",
       checkpoint(kGenerate, flip(kData, 0.5)),
       {"rank-0.safetensors is damaged: the hash of block"}},
      {"its data's header with a bit flipped",
       checkpoint(kGenerate, flip(kData, 0.001)),
       {"rank-0.safetensors is damaged: the hash of its header"}},
      {"verified: its data with a bit flipped",
       checkpoint(kVerify, flip(kData, 0.5)),
       {"1 problems in", "rank-0.safetensors is damaged: the hash of block"}},
      {"verified: its data missing",
       checkpoint(kVerify, without(kData)),
       {"1 problems in", "rank-0.safetensors"}},
      {"verified: its list cut",
       checkpoint(kVerify, cut(kManifest, 0.9)),
       {"1 problems in", "titan.json is damaged"}},
      {"inspected: its list cut", checkpoint(kInspect, cut(kManifest, 0.9)), {"titan.json is damaged"}},
      {"listed as a folder of them",
       checkpoint({"checkpoint", "list", "STEP"}, nothing()),
       {"step-12 is a checkpoint, not a folder of them", "titan checkpoint inspect"}},
      {"listed: a file", checkpoint({"checkpoint", "list", "STEP"}, as_file()), {"there is no such folder"}},
      {"evaluated: its data with a bit flipped",
       [](const fs::path& f) {
         Words a = evaluate("a.txt", make_text(2000, 1))(f);
         flip(kData, 0.7)(f / "step-12");
         return a;
       },
       {"rank-0.safetensors is damaged: the hash of block"}},
      {"resumed: its list with a bit flipped",
       resume(flip(kManifest, 0.4)),
       {"no checkpoint in", "titan.json is damaged", "move them away"}},
      {"resumed: its data with a bit flipped",
       resume(flip(kData, 0.6)),
       {"no checkpoint in", "the hash of block", "move them away"}},
      {"resumed: its data missing",
       resume(without(kData)),
       {"no checkpoint in", "rank-0.safetensors", "move them away"}},
      {"with a tokenizer that is not there",
       checkpoint({"generate", "STEP", "--prompt", "x", "--tokenizer", "/nowhere"}, nothing()),
       {"tokenizer: /nowhere does not exist"}},
      {"with a larger tokenizer",
       checkpoint(
           {"generate", "STEP", "--prompt", "x", "--tokenizer", TITAN_TEST_DATA "/tokenizer/gpt2_small"},
           nothing()),
       {"the tokenizer has 407 ids, the model's embedding 258 rows"}},
      {"too much to generate",
       checkpoint({"generate", "STEP", "--prompt", "x", "--max-new-tokens", "2000000000"}, nothing()),
       {"GiB of memory", "lower --max-new-tokens"}},
      {"too much to evaluate at a time",
       evaluate("a.txt", make_text(200'000, 1), {"--batch", "50000", "--seq-len", "32768"}),
       {"GiB of memory", "lower --batch or --seq-len"}},
      {"evaluated on nothing", evaluate("a.txt", ""), {"a.txt does not exist"}},
      {"evaluated on less than a sequence", evaluate("a.txt", "short"), {"the data has 7 tokens"}},
      {"evaluated on a cut stream",
       evaluate("a.txt.gz", gzip(make_text(9000, 1)).substr(0, 2000)),
       {"a.txt.gz: byte 2000", "truncated"}},
  };
  for (const Row& row : rows) check(row, 1);
}

TEST_CASE("unusual but good input is taken") {
  const TempDir folder;
  const std::string recipe =
      "[training]\nseq_len = 64\n[model]\nflavor = \"debugmodel\"\ntokenizer = \"byte\"\n";
  std::string crlf = "\xEF\xBB\xBF";
  for (const char c : recipe) crlf += c == '\n' ? std::string("\r\n") : std::string(1, c);
  write_file(folder / "r.toml", crlf);
  CHECK(run_titan({"plan", (folder / "r.toml").string()}).exit == 0);

  const auto tokens = [&](const std::string& name, const std::string& bytes) {
    write_file(folder / name, bytes);
    const Run run = run_titan({"data", "prepare", (folder / name).string(), "--tokenizer", "byte", "--output",
                               (folder / name).string() + "-cache"});
    INFO(run.err);
    CHECK(run.exit == 0);
    return run.out;
  };
  CHECK_THAT(tokens("binary.txt", random_bytes(1000)), Contains("1002 tokens, 1 documents"));
  CHECK_THAT(tokens("nul.txt", std::string(5, '\0')), Contains("7 tokens"));
  CHECK_THAT(tokens("marked.jsonl", "\xEF\xBB\xBF{\"text\": \"x\"}\r\n"), Contains("3 tokens"));
  CHECK_THAT(tokens("padded.txt.gz", gzip("abc") + std::string(100, '\0')), Contains("5 tokens"));
}
