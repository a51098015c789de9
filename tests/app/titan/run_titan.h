// Runs the titan executable and keeps what it printed.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace titan::test {

struct Run {
  int exit = -1;  ///< exit code; −signal when killed
  std::string out, err;
};

/// Starts `titan ARGUMENTS…`, waits for it. `environment` are extra NAME=value.
Run run_titan(const std::vector<std::string>& arguments, const std::vector<std::string>& environment = {});

/// A titan in the background.
class Running {
 public:
  explicit Running(const std::vector<std::string>& arguments);
  ~Running();
  pid_t pid() const { return pid_; }
  void signal(int number) const;
  /// Waits until its log holds `text`, at most `seconds`.
  bool wait_for(const std::string& text, double seconds) const;
  Run wait();

 private:
  std::filesystem::path log_;
  pid_t pid_ = -1;
};

/// A recipe that trains in a second: two small layers, sequences of 32, bytes as tokens, on text made here.
/// Returns the arguments "train RECIPE"; outputs go to `folder`/out.
std::vector<std::string> small_run(const std::filesystem::path& folder,
                                   const std::vector<std::string>& overrides = {});

/// The lines of metrics.jsonl.
std::vector<nlohmann::json> metrics(const std::filesystem::path& folder);
/// step → loss, as written: equal doubles are equal bits.
std::map<std::int64_t, double> losses(const std::filesystem::path& folder);

}  // namespace titan::test
