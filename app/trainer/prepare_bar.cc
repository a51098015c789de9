#include "app/trainer/prepare_bar.h"

#include <memory>

#include "engine/metrics/progress.h"

namespace titan {
namespace {

class PrepareBar {
 public:
  void update(const PrepareProgress& p) {
    if (bar_ == nullptr || p.phase != phase_) {
      finish();
      phase_ = p.phase;
      done_ = 0;
      bar_ = std::make_unique<ProgressBar>(p.phase == PrepareProgress::Phase::hash ? "Reading" : "Tokenizing",
                                           p.bytes_total, "B");
    }
    bar_->advance(p.bytes_done - done_);
    done_ = p.bytes_done;
  }
  void finish() {
    if (bar_ != nullptr) bar_->finish();
    bar_.reset();
  }

 private:
  std::unique_ptr<ProgressBar> bar_;
  PrepareProgress::Phase phase_ = PrepareProgress::Phase::hash;
  std::int64_t done_ = 0;
};

}  // namespace

PreparedData prepare_with_bar(const std::vector<std::string>& inputs, const Tokenizer& tokenizer,
                              const std::filesystem::path& cache, int threads) {
  PrepareBar bar;
  PrepareOptions options;
  options.cache_dir = cache;
  options.threads = threads;
  options.progress = [&](const PrepareProgress& p) { bar.update(p); };
  PreparedData data = prepare_data(inputs, tokenizer, options);
  bar.finish();
  return data;
}

}  // namespace titan
