#include <CLI/CLI.hpp>
#include <thread>

#include "app/command.h"
#include "app/option_checks.h"
#include "app/trainer/prepare_bar.h"
#include "app/trainer/signals.h"
#include "engine/data/inspect.h"
#include "engine/tokenizer/tokenizer.h"

namespace titan {
namespace {

class DataCommand final : public Subcommand {
 public:
  CLI::App* add_to(CLI::App& app) override {
    CLI::App* command = app.add_subcommand("data", "Prepare and look at training data");
    command->require_subcommand(1);
    prepare_ = command->add_subcommand("prepare", "Tokenize text into token shards");
    prepare_->add_option("input", inputs_, "Text files (.txt .jsonl .json, also .gz .zst), folders or globs")
        ->required();
    prepare_
        ->add_option("--tokenizer", tokenizer_,
                     "\"byte\", a tokenizer.json, a tokenizer.model or a folder with one")
        ->required();
    prepare_->add_option("--output", output_, "Folder for the shards")->required();
    prepare_->add_option("--threads", threads_, "Tokenizer threads (0: all processors)")
        ->check(integer_in(0, kMostThreads));
    inspect_ = command->add_subcommand("inspect", "Show what token shards hold");
    inspect_->add_option("path", path_, "A shard or a folder of shards")->required();
    inspect_->add_option("--tokenizer", tokenizer_, "Show the first tokens as text with this tokenizer");
    inspect_->add_option("--tokens", first_tokens_, "How many tokens to show")
        ->check(integer_in(0, kMostTokens))
        ->capture_default_str();
    inspect_->add_flag("--verify", verify_, "Read everything and compare the hashes");
    inspect_->add_flag("--json", json_, "One JSON object");
    return command;
  }

  Exit run() override { return prepare_->parsed() ? prepare() : inspect(); }

 private:
  Exit prepare() {
    stop_at_once_on_signals("stopped; whole shards are kept, and the same command goes on after them");
    const std::unique_ptr<Tokenizer> tokenizer = load_tokenizer(tokenizer_);
    const int threads =
        threads_ > 0 ? threads_ : static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
    const PreparedData data = prepare_with_bar(inputs_, *tokenizer, output_, threads);
    for (const auto& path : data.ignored) fmt::print(stderr, "ignored: {}\n", path.string());
    fmt::print("{}: {} tokens, {} documents, {} shards{}\n", data.folder.string(), data.tokens,
               data.documents, data.shards.size(), data.from_cache ? " (prepared before)" : "");
    return Exit::ok;
  }

  Exit inspect() {
    const DataSummary summary = summarize_data(path_, first_tokens_, verify_);
    std::unique_ptr<Tokenizer> tokenizer;
    if (!tokenizer_.empty()) tokenizer = load_tokenizer(tokenizer_);
    fmt::print("{}", json_ ? summary_to_json(summary) : format_summary(summary, tokenizer.get()));
    return Exit::ok;
  }

  CLI::App *prepare_ = nullptr, *inspect_ = nullptr;
  std::vector<std::string> inputs_;
  std::string tokenizer_, output_, path_;
  int threads_ = 0;
  std::int64_t first_tokens_ = 16;
  bool verify_ = false, json_ = false;
};

}  // namespace

std::unique_ptr<Subcommand> make_data_command() { return std::make_unique<DataCommand>(); }

}  // namespace titan
