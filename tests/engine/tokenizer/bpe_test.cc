#include "engine/tokenizer/bpe.h"

#include <catch2/catch.hpp>
#include <chrono>
#include <map>
#include <random>

namespace titan {
namespace {

// Bytes 'a'..'d' and random merges among them, so that merges of low rank appear late too.
BpeModel random_model(std::mt19937& random, int merge_count) {
  BpeModel model;
  model.byte_ids.fill(-1);
  std::map<std::string, int32_t> ids;
  for (const char c : {'a', 'b', 'c', 'd'}) {
    model.byte_ids[static_cast<unsigned char>(c)] = static_cast<int32_t>(model.tokens.size());
    ids[std::string(1, c)] = static_cast<int32_t>(model.tokens.size());
    model.tokens.emplace_back(1, c);
  }
  while (static_cast<int>(model.merges.size()) < merge_count) {
    const int32_t left = static_cast<int32_t>(random() % model.tokens.size());
    const int32_t right = static_cast<int32_t>(random() % model.tokens.size());
    const std::string joined = model.tokens[left] + model.tokens[right];
    if (joined.size() > 8) continue;
    if (const auto [it, is_new] = ids.emplace(joined, model.tokens.size()); is_new)
      model.tokens.push_back(joined);
    model.merges.push_back({left, right, ids[joined]});
  }
  std::shuffle(model.merges.begin(), model.merges.end(), random);
  return model;
}

// The definition: apply the best merge anywhere, leftmost first, until none is left.
std::vector<int32_t> encode_by_definition(const BpeModel& model, const std::string& word) {
  std::map<std::pair<int32_t, int32_t>, size_t> rank_of;
  for (size_t rank = 0; rank < model.merges.size(); ++rank) {
    rank_of[{model.merges[rank].left, model.merges[rank].right}] = rank;
  }
  std::vector<int32_t> ids;
  for (const char c : word) ids.push_back(model.byte_ids[static_cast<unsigned char>(c)]);
  while (true) {
    size_t best_rank = model.merges.size(), best = 0;
    for (size_t i = 0; i + 1 < ids.size(); ++i) {
      const auto found = rank_of.find({ids[i], ids[i + 1]});
      if (found != rank_of.end() && found->second < best_rank) best_rank = found->second, best = i;
    }
    if (best_rank == model.merges.size()) return ids;
    ids[best] = model.merges[best_rank].result;
    ids.erase(ids.begin() + static_cast<ptrdiff_t>(best) + 1);
  }
}

std::string random_word(std::mt19937& random, size_t size) {
  std::string word;
  for (size_t i = 0; i < size; ++i) word.push_back("abcd"[random() % 4]);
  return word;
}

}  // namespace

TEST_CASE("short and long words merge as BPE is defined", "[tokenizer]") {
  std::mt19937 random(7);
  for (int round = 0; round < 20; ++round) {
    const BpeModel model = random_model(random, 40);
    const Bpe bpe(model);
    Bpe::Scratch scratch;
    for (const size_t size : {0, 1, 2, 5, 47, 48, 49, 50, 300}) {
      const std::string word = random_word(random, size);
      std::vector<int32_t> ids, again;
      bpe.encode(word, scratch, ids);
      bpe.encode(word, scratch, again);  // from the cache
      CHECK(ids == encode_by_definition(model, word));
      CHECK(again == ids);
    }
  }
}

TEST_CASE("a byte without a token is dropped before merging", "[tokenizer]") {
  BpeModel model;
  model.tokens = {"a", "b", "ab"};
  model.byte_ids.fill(-1);
  model.byte_ids['a'] = 0;
  model.byte_ids['b'] = 1;
  model.merges = {{0, 1, 2}};
  const Bpe bpe(model);
  Bpe::Scratch scratch;
  std::vector<int32_t> ids;
  bpe.encode("aXb?", scratch, ids);
  CHECK(ids == std::vector<int32_t>{2});
}

TEST_CASE("a word of a megabyte takes n log n, not n squared", "[tokenizer]") {
  std::mt19937 random(7);
  const Bpe bpe(random_model(random, 60));
  Bpe::Scratch scratch;
  const std::string word = random_word(random, 1 << 20);
  std::vector<int32_t> ids;
  const auto start = std::chrono::steady_clock::now();
  bpe.encode(word, scratch, ids);
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  std::string decoded;
  for (const int32_t id : ids) decoded += bpe.tokens()[id];
  CHECK(decoded == word);
  CHECK(ids.size() < word.size());
  CHECK(elapsed.count() < 20);  // about 0.3 s; a quadratic algorithm takes an hour
}

}  // namespace titan
