#include <CLI/CLI.hpp>

#include "app/command.h"
#include "app/trainer/machine_report.h"

namespace titan {
namespace {

class DoctorCommand final : public Subcommand {
 public:
  CLI::App* add_to(CLI::App& app) override {
    return app.add_subcommand("doctor", "What this machine has, and what titan will use of it");
  }

  Exit run() override {
    fmt::print("{}", machine_report());
    return Exit::ok;
  }
};

}  // namespace

std::unique_ptr<Subcommand> make_doctor_command() { return std::make_unique<DoctorCommand>(); }

}  // namespace titan
