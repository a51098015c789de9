#include <CLI/CLI.hpp>

#include "app/command.h"
#include "app/option_checks.h"
#include "app/trainer/convert.h"
#include "engine/checkpoint/report.h"
#include "engine/huggingface/export.h"

namespace titan {
namespace {

class CheckpointCommand final : public Subcommand {
 public:
  CLI::App* add_to(CLI::App& app) override {
    CLI::App* command =
        app.add_subcommand("checkpoint", "List, look into, verify, import and export checkpoints");
    command->require_subcommand(1);
    list_ = command->add_subcommand("list", "The checkpoints of a folder");
    list_->add_option("folder", path_, "Folder with step-N checkpoints")->required();
    inspect_ = command->add_subcommand("inspect", "What a checkpoint holds");
    inspect_->add_option("checkpoint", path_, "A step-N folder")->required();
    verify_ = command->add_subcommand("verify", "Hash everything and compare");
    verify_->add_option("checkpoint", path_, "A step-N folder")->required();
    import_ = command->add_subcommand("import", "A titan checkpoint from a Hugging Face folder");
    import_->add_option("folder", path_, "Folder with config.json and *.safetensors")->required();
    import_
        ->add_option("output", output_, "The checkpoint to write: .../step-N, or a folder to write step-0 in")
        ->required();
    export_ = command->add_subcommand("export", "A Hugging Face folder from a checkpoint");
    export_->add_option("checkpoint", path_, "A step-N folder, or a folder of checkpoints (the newest)")
        ->required();
    export_->add_option("output", output_, "The folder to write")->required();
    export_->add_option("--dtype", dtype_, "float32, bfloat16 or float16")
        ->check(CLI::IsMember({"float32", "bfloat16", "float16"}))
        ->capture_default_str();
    export_->add_option("--max-shard-size", shard_bytes_, "Bytes of a file at most, such as 5GB")
        ->transform(CLI::AsSizeValue(true))
        ->check(integer_in(1, std::int64_t{1} << 62))
        ->default_str("5GB");
    export_->add_option("--tokenizer", tokenizer_, "Instead of the recipe's");
    return command;
  }

  Exit run() override {
    if (list_->parsed()) fmt::print("{}", list_checkpoints(path_));
    if (inspect_->parsed()) fmt::print("{}", inspect_checkpoint(path_));
    if (import_->parsed()) fmt::print("{}\n", import_model(path_, output_).string());
    if (export_->parsed()) {
      export_checkpoint(
          newest_checkpoint(path_), output_, tokenizer_,
          {.type = export_type(dtype_), .max_shard_bytes = static_cast<std::int64_t>(shard_bytes_)});
      fmt::print("{}\n", output_);
    }
    if (!verify_->parsed()) return Exit::ok;
    const VerifyReport report = verify_checkpoint(path_);
    fmt::print("{}", to_string(report));
    return report.ok() ? Exit::ok : Exit::failed;
  }

 private:
  CLI::App *list_ = nullptr, *inspect_ = nullptr, *verify_ = nullptr, *import_ = nullptr, *export_ = nullptr;
  std::string path_, output_, tokenizer_, dtype_ = "float32";
  std::uint64_t shard_bytes_ = 5'000'000'000;
};

}  // namespace

std::unique_ptr<Subcommand> make_checkpoint_command() { return std::make_unique<CheckpointCommand>(); }

}  // namespace titan
