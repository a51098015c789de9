// Threads that tokenize chunks; results come back in the order the chunks went in.
#pragma once

#include "engine/data/text_source.h"

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <future>
#include <mutex>
#include <thread>
#include <vector>

namespace titan {

class Tokenizer;

struct TokenChunk {
  std::vector<int32_t> tokens;
  std::vector<int64_t> document_starts;  ///< positions in `tokens`
  int64_t text_bytes = 0;
  int64_t file_bytes_done = 0;  ///< as TextChunk's
};

/// BOS + tokens + EOS for each document of `chunk`.
TokenChunk tokenize_chunk(const TextChunk& chunk, const Tokenizer& tokenizer);

class TokenizePool {
 public:
  /// `tokenizer` must outlive the pool.
  TokenizePool(const Tokenizer& tokenizer, int threads);
  ~TokenizePool();  ///< drops what was not popped
  TokenizePool(const TokenizePool&) = delete;
  TokenizePool& operator=(const TokenizePool&) = delete;

  void push(TextChunk chunk);
  TokenChunk pop();  ///< the oldest; rethrows what its tokenization threw
  bool empty() const { return results_.empty(); }
  /// Enough chunks are in flight to keep the threads busy: pop before the next push, to bound memory.
  bool full() const { return results_.size() >= 3 * threads_.size(); }

 private:
  void work();
  void stop();

  const Tokenizer& tokenizer_;
  std::deque<std::future<TokenChunk>> results_;  ///< used by the owner's thread only
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::packaged_task<TokenChunk()>> tasks_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace titan
