#include <CLI/CLI.hpp>
#include <cmath>
#include <nlohmann/json.hpp>

#include "app/command.h"
#include "app/option_checks.h"
#include "app/trainer/model.h"
#include "engine/tokenizer/tokenizer.h"

namespace titan {
namespace {

class EvalCommand final : public Subcommand {
 public:
  CLI::App* add_to(CLI::App& app) override {
    CLI::App* command = app.add_subcommand("eval", "Loss and perplexity of a trained model on text");
    command
        ->add_option("checkpoint", checkpoint_,
                     "A step-N folder, a folder of checkpoints (the newest), or a Hugging Face folder")
        ->required();
    command->add_option("--data", data_, "Text files, folders, globs or token shards")->required();
    command->add_option("--seq-len", seq_len_, "Tokens a window (0: the recipe's)")
        ->check(integer_in(0, kMostTokens))
        ->capture_default_str();
    command->add_option("--batch", batch_, "Windows at a time")
        ->check(integer_in(1, kMostTokens))
        ->capture_default_str();
    command->add_option("--dtype", dtype_, "float32 or bfloat16")
        ->check(CLI::IsMember({"float32", "bfloat16"}))
        ->capture_default_str();
    command->add_option("--tokenizer", tokenizer_, "Instead of the recipe's");
    add_device_options(*command, device_);
    command->add_flag("--json", json_, "One JSON object");
    return command;
  }

  Exit run() override {
    const TrainedModel model = open_trained_model(checkpoint_, tokenizer_);
    const Evaluation e =
        evaluate(model, data_, seq_len_, batch_, dtype_ == "float32" ? DType::f32 : DType::bf16, device_);
    if (json_)
      fmt::print("{}\n", nlohmann::json{{"checkpoint", model.path.string()},
                                        {"loss", e.loss},
                                        {"perplexity", std::exp(e.loss)},
                                        {"tokens", e.tokens},
                                        {"seconds", e.seconds}}
                             .dump());
    else
      fmt::print("loss {:.6f}  perplexity {:.4f}  tokens {}  ({:.1f} s, {:.0f} tokens/s)\n", e.loss,
                 std::exp(e.loss), e.tokens, e.seconds, static_cast<double>(e.tokens) / e.seconds);
    return Exit::ok;
  }

 private:
  std::string checkpoint_, tokenizer_, dtype_ = "float32";
  std::vector<std::string> data_;
  std::int64_t seq_len_ = 0, batch_ = 4;
  DeviceRequest device_;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Subcommand> make_eval_command() { return std::make_unique<EvalCommand>(); }

}  // namespace titan
