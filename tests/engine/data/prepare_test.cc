#include "engine/data/prepare.h"

#include "engine/data/inspect.h"
#include "engine/data/manifest.h"
#include "engine/data/token_shard.h"
#include "engine/tokenizer/tokenizer.h"
#include "tests/engine/data/data_files.h"
#include "tests/support/temp_dir.h"

#include <catch2/catch.hpp>

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <functional>
#include <map>
#include <random>
#include <thread>

using namespace titan;
using namespace titan::test;
using Catch::Contains;

namespace fs = std::filesystem;

namespace {

PreparedData prepare(const fs::path& text, const fs::path& cache, PrepareOptions options = {}) {
  const std::unique_ptr<Tokenizer> tokenizer = make_byte_tokenizer();
  options.cache_dir = cache;
  return prepare_data({text.string()}, *tokenizer, options);
}

std::map<std::string, std::string> shard_bytes(const PreparedData& data) {
  std::map<std::string, std::string> out;
  for (const fs::path& shard : data.shards) out[shard.filename()] = read_file(shard);
  return out;
}

std::vector<int32_t> all_tokens(const PreparedData& data) {
  std::vector<int32_t> out;
  for (const fs::path& path : data.shards) {
    const TokenShard shard(path);
    std::vector<int32_t> tokens(static_cast<size_t>(shard.info().token_count));
    shard.read(0, tokens);
    out.insert(out.end(), tokens.begin(), tokens.end());
  }
  return out;
}

/// Several files of every kind, about 9 MB.
void write_corpus(const fs::path& folder) {
  fs::create_directories(folder);
  write_file(folder / "a.txt", make_text(3'500'000, 1));
  write_file(folder / "b.txt.gz", gzip(make_text(2'500'000, 2)));
  std::string lines;
  for (uint32_t i = 0; i < 3000; ++i)
    lines += fmt::format("{{\"text\": \"document {}{}\"}}\n", i, std::string(i % 1500, 'z'));
  write_file(folder / "c.jsonl.zst", zstd(lines));
  for (int i = 0; i < 20; ++i)
    write_file(folder / fmt::format("d{}.md", i), make_text(100 + 977 * i, 10 + i));
}

bool has_leftovers(const fs::path& cache) {
  for (const auto& entry : fs::recursive_directory_iterator(cache)) {
    if (entry.path().extension() == ".tmp") return true;
  }
  return false;
}

/// What `call` says in a process that may not write what root owns: "" for no error.
std::string error_without_root(const std::function<void()>& call) {
  int pipe_ends[2];
  REQUIRE(pipe(pipe_ends) == 0);
  const pid_t child = fork();
  if (child == 0) {
    constexpr uid_t kNobody = 65534;
    if (geteuid() == 0 && setuid(kNobody) != 0) _exit(2);
    const std::string message = error_of(call);
    _exit(write(pipe_ends[1], message.data(), message.size()) == static_cast<ssize_t>(message.size()) ? 0
                                                                                                      : 3);
  }
  close(pipe_ends[1]);
  std::string message(4096, '\0');
  message.resize(
      static_cast<size_t>(std::max<ssize_t>(0, read(pipe_ends[0], message.data(), message.size()))));
  close(pipe_ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  REQUIRE(status == 0);
  return message;
}

/// Nobody may write in `folder` or below, all may read.
void make_read_only(const fs::path& folder) {
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    fs::permissions(entry.path(), fs::perms(entry.is_directory() ? 0555 : 0444));
  fs::permissions(folder, fs::perms(0555));
}

}  // namespace

TEST_CASE("documents become BOS, tokens, EOS") {
  const TempDir dir;
  const std::unique_ptr<Tokenizer> tokenizer = make_byte_tokenizer();
  write_file(dir / "a.jsonl", "{\"text\": \"hi\"}\n{\"text\": \"\"}\n");
  const PreparedData data = prepare(dir / "a.jsonl", dir / "cache");
  const int32_t bos = *tokenizer->bos(), eos = *tokenizer->eos();
  CHECK(all_tokens(data) == std::vector<int32_t>{bos, 'h', 'i', eos, bos, eos});
  CHECK(data.documents == 2);
  CHECK(data.tokens == 6);
  CHECK(data.text_bytes == 2);
  std::vector<int64_t> starts;
  TokenShard(data.shards.at(0)).document_starts(0, 6, 0, starts);
  CHECK(starts == std::vector<int64_t>{0, 4});
}

TEST_CASE("shards do not depend on the number of threads, and hold the whole corpus in order") {
  const TempDir dir;
  write_corpus(dir / "text");
  PrepareOptions options;
  options.max_shard_tokens = 1'500'000;
  const PreparedData one = prepare(dir / "text", dir / "cache1", options);
  CHECK(one.shards.size() >= 4);
  const auto expected = shard_bytes(one);
  for (const int threads : {2, 5}) {
    options.threads = threads;
    const PreparedData many = prepare(dir / "text", dir / fmt::format("cache{}", threads), options);
    CHECK(shard_bytes(many) == expected);
    CHECK(many.folder.filename() == one.folder.filename());
  }
  CHECK(one.documents == 1 + 1 + 3000 + 20);

  const std::unique_ptr<Tokenizer> tokenizer = make_byte_tokenizer();
  const std::string text = make_text(3'500'000, 1);
  std::vector<int32_t> tokens{*tokenizer->bos()};
  tokenizer->encode(text, tokens);
  tokens.push_back(*tokenizer->eos());
  std::vector<int32_t> prepared = all_tokens(one);
  REQUIRE(prepared.size() == static_cast<size_t>(one.tokens));
  prepared.resize(tokens.size());
  CHECK(prepared == tokens);
}

TEST_CASE(
    "a second run reads nothing; a touched file is only hashed again; a changed one is prepared again") {
  const TempDir dir;
  write_file(dir / "a.txt", make_text(100'000, 1));
  const PreparedData first = prepare(dir / "a.txt", dir / "cache");
  CHECK(!first.from_cache);
  const PreparedData second = prepare(dir / "a.txt", dir / "cache");
  CHECK(second.from_cache);
  CHECK(second.shards == first.shards);
  CHECK(second.tokens == first.tokens);
  CHECK(second.documents == first.documents);

  fs::last_write_time(dir / "a.txt", fs::file_time_type::clock::now() + std::chrono::hours(1));
  CHECK(prepare(dir / "a.txt", dir / "cache").from_cache);
  fs::copy_file(dir / "a.txt", dir / "elsewhere.txt");
  CHECK(prepare(dir / "elsewhere.txt", dir / "cache").folder == first.folder);  // keyed by content

  std::string text = make_text(100'000, 1);
  text[5000] ^= 1;  // the same size
  write_file(dir / "a.txt", text);
  const PreparedData changed = prepare(dir / "a.txt", dir / "cache");
  CHECK(!changed.from_cache);
  CHECK(changed.folder != first.folder);
}

TEST_CASE("an unchanged file is not read: its bytes may be gone") {
  const TempDir dir;
  write_file(dir / "a.txt", make_text(100'000, 1));
  prepare(dir / "a.txt", dir / "cache");
  int64_t hash_calls = 0;
  PrepareOptions options;
  options.progress = [&](const PrepareProgress& progress) {
    CHECK(progress.phase == PrepareProgress::Phase::hash);
    ++hash_calls;
    CHECK(progress.bytes_done == progress.bytes_total);  // in one step: known without reading
  };
  CHECK(prepare(dir / "a.txt", dir / "cache", options).from_cache);
  CHECK(hash_calls == 1);
}

TEST_CASE("progress goes from nothing to everything") {
  const TempDir dir;
  write_corpus(dir / "text");
  int64_t hashed = 0, tokenized = 0, tokens = 0;
  PrepareOptions options;
  options.threads = 2;
  options.progress = [&](const PrepareProgress& p) {
    int64_t& last = p.phase == PrepareProgress::Phase::hash ? hashed : tokenized;
    CHECK(p.bytes_done >= last);
    CHECK(p.bytes_done <= p.bytes_total);
    last = p.bytes_done;
    tokens = p.tokens;
    if (p.bytes_done == p.bytes_total) last = -p.bytes_total;
  };
  const PreparedData data = prepare(dir / "text", dir / "cache", options);
  CHECK(hashed < 0);
  CHECK(tokenized < 0);
  CHECK(tokens == data.tokens);
}

TEST_CASE("a damaged shard in the cache is made again") {
  const TempDir dir;
  write_file(dir / "a.txt", make_text(100'000, 1));
  const PreparedData first = prepare(dir / "a.txt", dir / "cache");
  const auto expected = shard_bytes(first);
  write_file(first.shards[0], expected.begin()->second.substr(0, 5000));
  const PreparedData again = prepare(dir / "a.txt", dir / "cache");
  CHECK(!again.from_cache);
  CHECK(shard_bytes(again) == expected);
  write_file(first.folder / kManifestFile, "{\"chunks\": ");
  CHECK(shard_bytes(prepare(dir / "a.txt", dir / "cache")) == expected);
  write_file(dir / "cache" / "hashes.json", "[1, 2");
  CHECK(prepare(dir / "a.txt", dir / "cache").from_cache);
}

TEST_CASE(
    "an error in the middle leaves nothing half done, and the next run goes on after the last whole shard") {
  const TempDir dir;
  write_corpus(dir / "text");
  PrepareOptions options;
  options.max_shard_tokens = 1'500'000;
  const auto expected = shard_bytes(prepare(dir / "text", dir / "straight", options));

  for (const int stop_after : {0, 1, 2, 3, 5, 7}) {
    INFO("stopped after " << stop_after << " chunks");
    const fs::path cache = dir / fmt::format("cache{}", stop_after);
    int chunks = 0;
    PrepareOptions stopped = options;
    stopped.progress = [&](const PrepareProgress& p) {
      if (p.phase == PrepareProgress::Phase::tokenize && chunks++ == stop_after) throw UserError("stopped");
    };
    CHECK(error_of([&] { prepare(dir / "text", cache, stopped); }) == "stopped");
    CHECK(!has_leftovers(cache));

    int64_t first_tokens = -1;
    PrepareOptions resumed = options;
    resumed.threads = 2;
    resumed.progress = [&](const PrepareProgress& p) {
      if (p.phase == PrepareProgress::Phase::tokenize && first_tokens < 0) first_tokens = p.tokens;
    };
    const PreparedData data = prepare(dir / "text", cache, resumed);
    CHECK(shard_bytes(data) == expected);
    if (stop_after >= 3) CHECK(first_tokens > 1'500'000);  // the first shard was kept
  }
}

TEST_CASE("killed at random moments, then resumed: the shards are bitwise those of a straight run") {
  const TempDir dir;
  write_corpus(dir / "text");
  PrepareOptions options;
  options.threads = 2;
  options.max_shard_tokens = 700'000;
  const auto begin = std::chrono::steady_clock::now();
  const auto expected = shard_bytes(prepare(dir / "text", dir / "straight", options));
  const auto whole = std::chrono::steady_clock::now() - begin;

  std::mt19937 random(7);
  int killed = 0;
  for (int round = 0; round < 5; ++round) {
    const fs::path cache = dir / fmt::format("cache{}", round);
    for (int attempt = 0; attempt < 3; ++attempt) {
      const pid_t child = fork();
      if (child == 0) {
        try {
          prepare(dir / "text", cache, options);
        } catch (...) {
          _exit(1);
        }
        _exit(0);
      }
      REQUIRE(child > 0);
      std::this_thread::sleep_for(whole * (random() % 1000) / 1000);
      kill(child, SIGKILL);
      int status = 0;
      REQUIRE(waitpid(child, &status, 0) == child);
      killed += WIFSIGNALED(status);
      if (WIFEXITED(status)) CHECK(WEXITSTATUS(status) == 0);
    }
    CHECK(shard_bytes(prepare(dir / "text", cache, options)) == expected);
    CHECK(!has_leftovers(cache));
  }
  CHECK(killed > 0);
}

TEST_CASE("processes that prepare the same data at once share the result") {
  const TempDir dir;
  write_corpus(dir / "text");
  std::vector<pid_t> children;
  for (int i = 0; i < 3; ++i) {
    children.push_back(fork());
    if (children.back() == 0) {
      int code = 1;
      try {
        code = prepare(dir / "text", dir / "cache").from_cache ? 10 : 20;
      } catch (...) {
      }
      _exit(code);
    }
  }
  std::vector<int> codes;
  for (const pid_t child : children) {
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    codes.push_back(WEXITSTATUS(status));
  }
  std::sort(codes.begin(), codes.end());
  CHECK(codes == std::vector<int>{10, 10, 20});
}

TEST_CASE("a cache inside the text folder is not text") {
  const TempDir dir;
  fs::create_directories(dir / "text");
  write_file(dir / "text/a.txt", make_text(1000, 1));
  const PreparedData first = prepare(dir / "text", dir / "text/cache");
  CHECK(first.documents == 1);
  CHECK(prepare(dir / "text", dir / "text/cache").from_cache);
}

TEST_CASE("a cache that cannot be written serves what it holds, and says so of the rest") {
  const TempDir dir;
  fs::permissions(dir.path(), fs::perms(0755));
  write_file(dir / "a.txt", "some text");
  write_file(dir / "b.txt", "some other text");
  const PreparedData made = prepare(dir / "a.txt", dir / "cache");
  const auto shards = shard_bytes(made);
  fs::remove(dir / "cache" / "hashes.lock");  // as in a cache that was copied
  fs::remove(dir / "cache" / "hashes.json");
  make_read_only(dir / "cache");
  CHECK(error_without_root([&] {
          if (!prepare(dir / "a.txt", dir / "cache").from_cache) throw UserError("made again");
        }) == "");
  CHECK_THAT(
      error_without_root([&] { prepare(dir / "b.txt", dir / "cache"); }),
      Contains((dir / "cache").string()) && Contains("Permission denied") && Contains("another folder"));
  CHECK(shard_bytes(made) == shards);
  CHECK(!fs::exists(dir / "cache" / "hashes.lock"));
  for (const fs::path& folder : {dir / "cache", made.folder}) fs::permissions(folder, fs::perms(0755));
}

TEST_CASE("a manifest that is not the folder's is not followed") {
  const TempDir dir;
  write_file(dir / "a.txt", make_text(10'000, 1));
  const PreparedData made = prepare(dir / "a.txt", dir / "cache");
  const fs::path path = made.folder / kManifestFile;
  const ShardManifest good = read_shard_manifest(path).value();
  const auto changed = [&](const std::function<void(ShardManifest&)>& change) {
    ShardManifest manifest = good;
    change(manifest);
    write_shard_manifest(path, manifest);
    return read_shard_manifest(path).has_value();
  };
  CHECK(changed([](ShardManifest&) {}));
  CHECK(!changed([](ShardManifest& m) { m.shards.clear(); }));
  CHECK(!changed([](ShardManifest& m) { m.shards[0].tokens += 1; }));
  CHECK(!changed([](ShardManifest& m) { m.shards[0].documents = INT64_MAX; }));
  CHECK(!changed([](ShardManifest& m) { m.shards[0].text_bytes = -1; }));
  CHECK(!changed([](ShardManifest& m) { m.shards[0].content_hash ^= 1; }));
  CHECK(!changed([&](ShardManifest& m) { m.shards[0].file = made.shards[0].string(); }));
  CHECK(!changed([&](ShardManifest& m) {
    m.shards[0].file = "../" + made.folder.filename().string() + "/" + m.shards[0].file;
  }));
  std::string fraction = read_file(path);
  fraction.replace(fraction.find("\"content_hash\": ") + 16, 1, "1e25, \"was\": ");
  write_file(path, fraction);
  CHECK(!read_shard_manifest(path));
  for (const char* text : {"", "[]", R"({"chunks": 1.5, "shards": []})", R"({"chunks": 1, "shards": [5]})"}) {
    write_file(path, text);
    CHECK(!read_shard_manifest(path));
  }
}

TEST_CASE("errors of the text come out with file and line") {
  const TempDir dir;
  write_file(dir / "a.jsonl", "{\"text\": \"x\"}\n{\"txt\": \"x\"}\n");
  PrepareOptions options;
  options.threads = 2;
  CHECK_THAT(error_of([&] { prepare(dir / "a.jsonl", dir / "cache", options); }), Contains("a.jsonl:2: "));
  write_file(dir / "b.jsonl", "\n\n\n");
  CHECK_THAT(error_of([&] { prepare(dir / "b.jsonl", dir / "cache", options); }), Contains("no document"));
}

TEST_CASE("token shards are data themselves") {
  const TempDir dir;
  const std::unique_ptr<Tokenizer> tokenizer = make_byte_tokenizer();
  write_corpus(dir / "text");
  PrepareOptions options;
  options.max_shard_tokens = 1'500'000;
  const PreparedData made = prepare(dir / "text", dir / "cache", options);
  const auto opened = [&](const std::string& input) { return prepare_data({input}, *tokenizer, {}); };

  CHECK(opened(made.folder).shards == made.shards);
  CHECK(opened(made.folder).tokens == made.tokens);
  CHECK(opened(dir / "cache").shards == made.shards);
  CHECK(opened((made.folder / "*.tokens").string()).shards == made.shards);
  CHECK(opened(made.shards[0]).shards == std::vector{made.shards[0]});

  ShardWriter wide(dir / "wide.tokens", 300, tokenizer->fingerprint());
  wide.append(std::vector<int32_t>{299}, std::vector<int64_t>{0}, 1);
  wide.finish();
  CHECK_THAT(error_of([&] { opened(dir / "wide.tokens"); }),
             Contains("vocabulary of 300, the tokenizer has 258"));
  write_counting_shard(dir / "other.tokens", 0, 10, {0});
  CHECK_THAT(error_of([&] { opened(dir / "other.tokens"); }), Contains("made by tokenizer counting"));
  CHECK_THAT(error_of([&] {
               prepare_data({made.folder.string(), (dir / "text").string()}, *tokenizer, {});
             }),
             Contains("only one kind"));
  fs::remove(made.folder / kManifestFile);
  CHECK_THAT(error_of([&] { opened(made.folder); }), Contains("has not finished"));
  CHECK_THAT(error_of([&] { opened(dir / "cache"); }), Contains("cache of 0 prepared data sets"));
}

TEST_CASE("inspect tells what the shards hold") {
  const TempDir dir;
  const std::unique_ptr<Tokenizer> tokenizer = make_byte_tokenizer();
  write_file(dir / "a.txt", "Hello\nworld and more");
  const PreparedData data = prepare(dir / "a.txt", dir / "cache");
  const DataSummary summary = summarize_data(data.folder, 8, true);
  CHECK(summary.tokens == 22);
  CHECK(summary.documents == 1);
  CHECK(summary.text_bytes == 20);
  CHECK(summary.first_tokens.size() == 8);
  const std::string text = format_summary(summary, tokenizer.get());
  CHECK_THAT(text, Contains("22 (uint16)") && Contains("0.909 bytes/token") &&
                       Contains(tokenizer->fingerprint()) && Contains("\"Hello\\nw\""));
  CHECK_THAT(summary_to_json(summary), Contains("\"tokens\":22") && Contains("\"dtype\":\"uint16\""));
  CHECK_THAT(error_of([&] { summarize_data(dir / "a.txt"); }), Contains("neither a token shard"));
}
