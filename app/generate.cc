#include <CLI/CLI.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "app/command.h"
#include "app/option_checks.h"
#include "app/trainer/model.h"
#include "engine/checkpoint/safetensors.h"
#include "engine/tokenizer/tokenizer.h"

namespace titan {
namespace {

class GenerateCommand final : public Subcommand {
 public:
  CLI::App* add_to(CLI::App& app) override {
    CLI::App* command = app.add_subcommand("generate", "Continue a prompt with a trained model");
    command
        ->add_option("checkpoint", checkpoint_,
                     "A step-N folder, a folder of checkpoints (the newest), or a Hugging Face folder")
        ->required();
    command->add_option("--prompt", prompt_, "Text to continue")->required();
    command->add_option("--max-new-tokens", options_.max_new_tokens, "Stop after so many tokens")
        ->check(integer_in(1, kMostTokens))
        ->capture_default_str();
    command->add_option("--temperature", options_.temperature, "0: always the most likely token")
        ->check(not_negative())
        ->capture_default_str();
    command->add_option("--top-k", options_.top_k, "Choose among the k most likely tokens (0: all)")
        ->check(integer_in(0, kMostTokens))
        ->capture_default_str();
    command->add_option("--seed", options_.seed, "The same seed gives the same text")->capture_default_str();
    command->add_option("--dtype", dtype_, "float32 or bfloat16")
        ->check(CLI::IsMember({"float32", "bfloat16"}))
        ->capture_default_str();
    command->add_option("--tokenizer", tokenizer_, "Instead of the recipe's");
    add_device_options(*command, options_.device);
    command->add_option("--logits", logits_, "Write the logits of each new token to this .safetensors file");
    command->add_flag("--json", json_, "One JSON object with token ids, text and speed");
    return command;
  }

  Exit run() override {
    const TrainedModel model = open_trained_model(checkpoint_, tokenizer_);
    options_.compute = dtype_ == "float32" ? DType::f32 : DType::bf16;
    if (!json_) fmt::print("{}", prompt_);
    std::vector<float> all_logits;
    const Generation g =
        generate(model, prompt_, options_, [&](std::int32_t token, std::span<const float> logits) {
          if (!logits_.empty()) all_logits.insert(all_logits.end(), logits.begin(), logits.end());
          if (json_) return;
          fmt::print("{}", model.tokenizer->decode(std::span(&token, 1)));
          std::fflush(stdout);
        });
    if (!logits_.empty()) write_logits(all_logits, model.config.vocab_size);
    if (json_)
      fmt::print("{}\n", to_json(model, g));
    else
      fmt::print("\n");
    return Exit::ok;
  }

 private:
  void write_logits(const std::vector<float>& logits, std::int64_t vocab_size) const {
    const auto tokens = static_cast<std::int64_t>(logits.size()) / vocab_size;
    SafetensorsWriter writer(logits_, {{"logits", StoredType::f32, {tokens, vocab_size}, 0, 0}}, {});
    writer.write(std::as_bytes(std::span(logits)));
    writer.finish();
  }

  std::string to_json(const TrainedModel& model, const Generation& g) const {
    nlohmann::json j;
    j["checkpoint"] = model.path.string();
    j["prompt_ids"] = g.prompt;
    j["output_ids"] = g.output;
    j["text"] = model.tokenizer->decode(g.output);
    j["prefill_seconds"] = g.prefill_seconds;
    j["decode_seconds"] = g.decode_seconds;
    j["tokens_per_second"] =
        g.decode_seconds > 0 ? static_cast<double>(g.output.size()) / g.decode_seconds : 0;
    return j.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  }

  std::string checkpoint_, prompt_, tokenizer_, logits_, dtype_ = "float32";
  GenerateOptions options_;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Subcommand> make_generate_command() { return std::make_unique<GenerateCommand>(); }

}  // namespace titan
