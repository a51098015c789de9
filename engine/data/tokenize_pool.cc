#include "engine/data/tokenize_pool.h"

#include "engine/tokenizer/tokenizer.h"
#include "kernels/base/error.h"
#include "kernels/base/threads.h"

#include <utility>

namespace titan {

TokenChunk tokenize_chunk(const TextChunk& chunk, const Tokenizer& tokenizer) {
  const std::optional<int32_t> bos = tokenizer.bos();
  const std::optional<int32_t> eos = tokenizer.eos();
  TokenChunk out;
  out.file_bytes_done = chunk.file_bytes_done;
  for_each_piece(chunk, [&](const TextPiece& piece) {
    if (piece.begins_document) out.document_starts.push_back(static_cast<int64_t>(out.tokens.size()));
    if (piece.begins_document && bos) out.tokens.push_back(*bos);
    tokenizer.encode(piece.text, out.tokens);
    if (piece.ends_document && eos) out.tokens.push_back(*eos);
    out.text_bytes += static_cast<int64_t>(piece.text.size());
  });
  return out;
}

TokenizePool::TokenizePool(const Tokenizer& tokenizer, int threads) : tokenizer_(tokenizer) {
  TITAN_CHECK(threads > 0, "threads = {}", threads);
  try {
    for (int i = 0; i < threads; ++i) threads_.push_back(start_thread([this] { work(); }));
  } catch (...) {
    stop();
    throw;
  }
}

TokenizePool::~TokenizePool() { stop(); }

void TokenizePool::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    tasks_.clear();
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void TokenizePool::push(TextChunk chunk) {
  std::packaged_task<TokenChunk()> task(
      [this, chunk = std::move(chunk)] { return tokenize_chunk(chunk, tokenizer_); });
  results_.push_back(task.get_future());
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  changed_.notify_one();
}

TokenChunk TokenizePool::pop() {
  TITAN_CHECK(!results_.empty());
  std::future<TokenChunk> result = std::move(results_.front());
  results_.pop_front();
  return result.get();
}

void TokenizePool::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stopping_ || !tasks_.empty(); });
    if (tasks_.empty()) return;
    std::packaged_task<TokenChunk()> task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    task();
    lock.lock();
  }
}

}  // namespace titan
