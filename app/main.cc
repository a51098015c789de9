#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <new>
#include <string>

#include "app/command.h"
#include "app/standard_streams.h"
#include "engine/metrics/log.h"

namespace titan {
namespace {

Exit run(int argc, char** argv) {
  CLI::App app("titan: pre-trains Llama 3.1 models from a TOML recipe", "titan");
  app.set_version_flag("--version", "titan " TITAN_VERSION);
  app.require_subcommand(1);
  LogOptions log;
  app.add_option("--log-level", log.level, "debug, info, warning, error or off")->capture_default_str();

  std::vector<std::unique_ptr<Subcommand>> commands;
  commands.push_back(make_train_command());
  commands.push_back(make_plan_command());
  commands.push_back(make_bench_command());
  commands.push_back(make_data_command());
  commands.push_back(make_checkpoint_command());
  commands.push_back(make_generate_command());
  commands.push_back(make_eval_command());
  commands.push_back(make_doctor_command());
  std::vector<CLI::App*> parsers;
  for (const auto& command : commands) parsers.push_back(command->add_to(app));

  try {
    app.parse(argc, argv);
    setup_logging(log);
    for (std::size_t i = 0; i < commands.size(); ++i)
      if (parsers[i]->parsed()) {
        const Exit exit = commands[i]->run();
        finish_output();
        return exit;
      }
  } catch (const CLI::ParseError& error) {
    if (app.exit(error) != 0) return Exit::usage;
    finish_output();  // of --help and --version
  }
  return Exit::ok;
}

/// `run` with its errors told. Telling must not fail in turn: stderr may be a full disk.
Exit guarded_run(int argc, char** argv) {
  const auto tell = [](const std::string& message) {
    std::fputs(("titan: " + message + "\n").c_str(), stderr);
  };
  try {
    return run(argc, argv);
  } catch (const UserError& error) {
    tell(error.what());
    return error.exit();
  } catch (const std::bad_alloc&) {
    tell("out of memory: the system gave this process no more");
  } catch (const std::filesystem::filesystem_error& error) {
    tell(readable(fmt::format("{}: {}", error.path1().string(), error.code().message())));
  } catch (const std::exception& error) {
    tell(error.what());
  }
  return Exit::failed;
}

}  // namespace
}  // namespace titan

int main(int argc, char** argv) {
  titan::occupy_standard_descriptors();
  return static_cast<int>(titan::guarded_run(argc, argv));
}
