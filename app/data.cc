#include <CLI/CLI.hpp>
#include <chrono>
#include <map>
#include <thread>

#include "app/command.h"
#include "app/option_checks.h"
#include "app/trainer/prepare_bar.h"
#include "app/trainer/run_data.h"
#include "app/trainer/signals.h"
#include "engine/data/batch_loader.h"
#include "engine/data/documents.h"
#include "engine/data/import.h"
#include "engine/data/inspect.h"
#include "engine/recipe/recipe.h"
#include "engine/tokenizer/tokenizer.h"

namespace titan {
namespace {

/// Text for a terminal: control characters other than line ends and tabs as \xNN.
std::string printable(const std::string& text) {
  std::string out;
  for (const char c : text) {
    const bool control = (c >= 0 && c < 0x20 && c != '\n' && c != '\t') || c == 0x7f;
    out += control ? fmt::format("\\x{:02x}", static_cast<unsigned char>(c)) : std::string(1, c);
  }
  return out;
}

class DataCommand final : public Subcommand {
 public:
  CLI::App* add_to(CLI::App& app) override {
    CLI::App* command = app.add_subcommand("data", "Prepare and look at training data");
    command->require_subcommand(1);
    prepare_ = command->add_subcommand("prepare", "Tokenize text into token shards");
    add_text_options(*prepare_);
    prepare_->add_option("--output", output_, "Folder for the shards")->required();
    prepare_->add_option("--threads", threads_, "Tokenizer threads (0: all processors)")
        ->check(integer_in(0, kMostThreads));
    import_ = command->add_subcommand("import", "Token files of llm.c, nanoGPT or Megatron to token shards");
    import_->add_option("input", inputs_, ".bin files (Megatron's with a .idx beside), folders or globs")
        ->required();
    import_->add_option("--tokenizer", tokenizer_, "The tokenizer that made the tokens")->required();
    import_->add_option("--output", output_, "Folder for the shards")->required();
    import_
        ->add_option(
            "--format", import_options_.format,
            "auto, llmc, nanogpt or megatron; auto knows llm.c by its magic and Megatron by its .idx")
        ->transform(
            CLI::CheckedTransformer(std::map<std::string, TokenFormat>{{"auto", TokenFormat::detect},
                                                                       {"llmc", TokenFormat::llm_c},
                                                                       {"nanogpt", TokenFormat::nano_gpt},
                                                                       {"megatron", TokenFormat::megatron}}));
    import_
        ->add_option("--vocab-size", import_options_.vocab_size,
                     "Refuse ids from here on (default: the tokenizer's)")
        ->check(integer_in(1, kMostTokens));
    import_
        ->add_option(
            "--begin-id", import_options_.begin_id,
            "This id begins a document (default: the tokenizer's BOS); Megatron's index says it itself")
        ->check(integer_in(0, kMostTokens));
    import_->add_option("--end-id", import_options_.end_id, "This id ends a document")
        ->check(integer_in(0, kMostTokens));
    inspect_ = command->add_subcommand("inspect", "Show what token shards hold");
    inspect_->add_option("path", path_, "A shard or a folder of shards")->required();
    inspect_->add_option("--tokenizer", tokenizer_, "Show the first tokens as text with this tokenizer");
    inspect_->add_option("--tokens", first_tokens_, "How many tokens to show")
        ->check(integer_in(0, kMostTokens))
        ->capture_default_str();
    inspect_->add_flag("--verify", verify_, "Read everything and compare the hashes");
    inspect_->add_flag("--json", json_, "One JSON object");
    encode_ = command->add_subcommand("encode", "Print the token ids of text, one line a document");
    add_text_options(*encode_);
    encode_->add_flag("--summary", summary_, "Only documents, bytes, tokens and the time that encoding took");
    samples_ = command->add_subcommand("samples", "Show training samples of a run as text, by their numbers");
    recipe_.add_to(*samples_);
    samples_->add_option("--first", first_sample_, "Number of the first, as in the line of a loss spike")
        ->check(integer_in(0, std::int64_t{1} << 62))
        ->required();
    samples_->add_option("--count", samples_count_, "How many")
        ->check(integer_in(1, kMostTokens))
        ->capture_default_str();
    return command;
  }

  Exit run() override {
    if (prepare_->parsed()) return prepare();
    if (import_->parsed()) return import_data();
    if (encode_->parsed()) return encode();
    return inspect_->parsed() ? inspect() : samples();
  }

 private:
  void add_text_options(CLI::App& command) {
    command.add_option("input", inputs_, "Text files (.txt .jsonl .json, also .gz .zst), folders or globs")
        ->required();
    command
        .add_option("--tokenizer", tokenizer_,
                    "\"byte\", a tokenizer.json, a tokenizer.model or a folder with one")
        ->required();
  }

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

  Exit import_data() {
    stop_at_once_on_signals("stopped; the same command starts over");
    const std::unique_ptr<Tokenizer> tokenizer = load_tokenizer(tokenizer_);
    const ImportedData data = import_tokens(inputs_, *tokenizer, output_, import_options_);
    fmt::print("{}: {} tokens, {} documents, {} shards\n", output_, data.tokens, data.documents, data.shards);
    return Exit::ok;
  }

  Exit inspect() {
    const DataSummary summary = summarize_data(path_, first_tokens_, verify_);
    std::unique_ptr<Tokenizer> tokenizer;
    if (!tokenizer_.empty()) tokenizer = load_tokenizer(tokenizer_);
    fmt::print("{}", json_ ? summary_to_json(summary) : format_summary(summary, tokenizer.get()));
    return Exit::ok;
  }

  /// Ids as the tokenizer gives them: neither BOS nor EOS around a document.
  Exit encode() {
    const std::unique_ptr<Tokenizer> tokenizer = load_tokenizer(tokenizer_);
    std::vector<std::int32_t> ids;
    std::int64_t documents = 0, bytes = 0, tokens = 0;
    std::chrono::duration<double> spent{};
    for_each_document(expand_text_files(inputs_).files, [&](std::string_view text) {
      ids.clear();
      const auto begin = std::chrono::steady_clock::now();
      tokenizer->encode(text, ids);
      spent += std::chrono::steady_clock::now() - begin;
      ++documents;
      bytes += static_cast<std::int64_t>(text.size());
      tokens += static_cast<std::int64_t>(ids.size());
      if (!summary_) fmt::print("{}\n", fmt::join(ids, " "));
    });
    if (!summary_) return Exit::ok;
    fmt::print("{} documents, {} bytes, {} tokens, {:.3f} s, {:.2f} MB/s\n", documents, bytes, tokens,
               spent.count(), static_cast<double>(bytes) / 1e6 / std::max(spent.count(), 1e-9));
    return Exit::ok;
  }

  Exit samples() {
    const Recipe recipe = recipe_.load();
    const std::unique_ptr<Tokenizer> tokenizer = recipe_tokenizer(recipe);
    const RunData data = open_run_data(recipe, *tokenizer);
    const SampleMix order =
        sample_order(data.training, static_cast<std::uint64_t>(recipe.debug.seed.value_or(0)));
    const auto length = static_cast<std::size_t>(recipe.training.seq_len);
    std::vector<std::int32_t> tokens(length), labels(length), positions(length), doc_start(length);
    for (std::int64_t sample = first_sample_; sample < first_sample_ + samples_count_; ++sample) {
      const SampleMix::Sample drawn = order(sample);
      const DataPart& part = data.training[drawn.part];
      const std::int64_t window = part.range.first + drawn.window;
      part.dataset->read_window(window, {tokens, labels, positions, doc_start});
      const std::string source =
          data.training.size() > 1 ? recipe.training.dataset_mix[drawn.part] : "the data";
      fmt::print("== sample {}: epoch {}, window {}, tokens {} to {} of {}\n{}\n", sample, drawn.epoch + 1,
                 window, window * recipe.training.seq_len, (window + 1) * recipe.training.seq_len - 1, source,
                 printable(tokenizer->decode(tokens)));
    }
    return Exit::ok;
  }

  CLI::App *prepare_ = nullptr, *import_ = nullptr, *inspect_ = nullptr, *encode_ = nullptr,
           *samples_ = nullptr;
  RecipeArguments recipe_;
  ImportOptions import_options_;
  std::vector<std::string> inputs_;
  std::string tokenizer_, output_, path_;
  int threads_ = 0;
  std::int64_t first_tokens_ = 16;
  std::int64_t first_sample_ = 0, samples_count_ = 1;
  bool verify_ = false, json_ = false, summary_ = false;
};

}  // namespace

std::unique_ptr<Subcommand> make_data_command() { return std::make_unique<DataCommand>(); }

}  // namespace titan
