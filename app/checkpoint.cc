#include <CLI/CLI.hpp>

#include "app/command.h"
#include "engine/checkpoint/report.h"

namespace titan {
namespace {

class CheckpointCommand final : public Subcommand {
 public:
  CLI::App* add_to(CLI::App& app) override {
    CLI::App* command = app.add_subcommand("checkpoint", "List, look into and verify checkpoints");
    command->require_subcommand(1);
    list_ = command->add_subcommand("list", "The checkpoints of a folder");
    list_->add_option("folder", path_, "Folder with step-N checkpoints")->required();
    inspect_ = command->add_subcommand("inspect", "What a checkpoint holds");
    inspect_->add_option("checkpoint", path_, "A step-N folder")->required();
    verify_ = command->add_subcommand("verify", "Hash everything and compare");
    verify_->add_option("checkpoint", path_, "A step-N folder")->required();
    return command;
  }

  Exit run() override {
    if (list_->parsed()) fmt::print("{}", list_checkpoints(path_));
    if (inspect_->parsed()) fmt::print("{}", inspect_checkpoint(path_));
    if (!verify_->parsed()) return Exit::ok;
    const VerifyReport report = verify_checkpoint(path_);
    fmt::print("{}", to_string(report));
    return report.ok() ? Exit::ok : Exit::failed;
  }

 private:
  CLI::App *list_ = nullptr, *inspect_ = nullptr, *verify_ = nullptr;
  std::string path_;
};

}  // namespace

std::unique_ptr<Subcommand> make_checkpoint_command() { return std::make_unique<CheckpointCommand>(); }

}  // namespace titan
