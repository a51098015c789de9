#include <CLI/CLI.hpp>
#include <exception>
#include <string>

#include "app/command.h"
#include "engine/metrics/log.h"

namespace titan {
namespace {

int run(int argc, char** argv) {
  CLI::App app("titan: pre-trains Llama 3.1 models from a TOML recipe", "titan");
  app.set_version_flag("--version", "titan " TITAN_VERSION);
  app.require_subcommand(1);
  LogOptions log;
  app.add_option("--log-level", log.level, "debug, info, warning, error or off")->capture_default_str();

  std::vector<std::unique_ptr<Subcommand>> commands;
  commands.push_back(make_train_command());
  commands.push_back(make_plan_command());
  commands.push_back(make_data_command());
  commands.push_back(make_checkpoint_command());
  commands.push_back(make_generate_command());
  commands.push_back(make_eval_command());
  commands.push_back(make_doctor_command());
  std::vector<CLI::App*> parsers;
  for (const auto& command : commands) parsers.push_back(command->add_to(app));

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : static_cast<int>(Exit::usage);
  }
  try {
    setup_logging(log);
    for (std::size_t i = 0; i < commands.size(); ++i)
      if (parsers[i]->parsed()) return static_cast<int>(commands[i]->run());
  } catch (const UserError& error) {
    fmt::print(stderr, "titan: {}\n", error.what());
    return static_cast<int>(error.exit());
  } catch (const std::exception& error) {
    fmt::print(stderr, "titan: {}\n", error.what());
    return static_cast<int>(Exit::failed);
  }
  return 0;
}

}  // namespace
}  // namespace titan

int main(int argc, char** argv) { return titan::run(argc, argv); }
