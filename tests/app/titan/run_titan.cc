#include "tests/app/titan/run_titan.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <sstream>
#include <thread>

#include "tests/support/temp_dir.h"

namespace titan::test {
namespace {

std::string slurp(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

pid_t start(const std::vector<std::string>& arguments, const std::vector<std::string>& environment,
            const std::filesystem::path& out, const std::filesystem::path& err) {
  // A signal that comes before titan is there must not meet the handlers of the tests.
  sigset_t all, before;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, &before);
  const pid_t pid = fork();
  if (pid != 0) {
    sigprocmask(SIG_SETMASK, &before, nullptr);
    return pid;
  }
  for (const int number : {SIGTERM, SIGINT, SIGUSR1}) std::signal(number, SIG_DFL);
  sigprocmask(SIG_SETMASK, &before, nullptr);
  const auto to = [](const std::filesystem::path& path, int fd) {
    const int file = open(path.c_str(), O_CREAT | O_WRONLY | O_TRUNC, 0600);
    dup2(file, fd);
  };
  to(out, STDOUT_FILENO);
  to(err, STDERR_FILENO);
  for (const std::string& variable : environment) putenv(const_cast<char*>(variable.c_str()));
  std::vector<char*> argv{const_cast<char*>("titan")};
  for (const std::string& a : arguments) argv.push_back(const_cast<char*>(a.c_str()));
  argv.push_back(nullptr);
  execv(TITAN_EXECUTABLE, argv.data());
  _exit(127);
}

int wait_for_exit(pid_t pid) {
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

}  // namespace

Run run_titan(const std::vector<std::string>& arguments, const std::vector<std::string>& environment) {
  const TempDir folder;
  Run run;
  run.exit = wait_for_exit(start(arguments, environment, folder / "out", folder / "err"));
  run.out = slurp(folder / "out");
  run.err = slurp(folder / "err");
  return run;
}

Running::Running(const std::vector<std::string>& arguments) {
  std::string name = (std::filesystem::temp_directory_path() / "titan-log-XXXXXX").string();
  close(mkstemp(name.data()));
  log_ = name;
  pid_ = start(arguments, {}, "/dev/null", log_);
}

Running::~Running() {
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    wait_for_exit(pid_);
  }
  std::filesystem::remove(log_);
}

void Running::signal(int number) const { kill(pid_, number); }

bool Running::wait_for(const std::string& text, double seconds) const {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (std::chrono::steady_clock::now() < end) {
    if (slurp(log_).find(text) != std::string::npos) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

Run Running::wait() {
  Run run;
  run.exit = wait_for_exit(pid_);
  pid_ = -1;
  run.err = slurp(log_);
  return run;
}

std::vector<std::string> small_run(const std::filesystem::path& folder,
                                   const std::vector<std::string>& overrides) {
  std::ofstream text(folder / "text.txt");
  for (int i = 0; i < 600; ++i)
    text << "line " << i << " of a text that repeats itself, " << (i * 7919) % 1000 << " times or so.\n";
  std::ofstream recipe(folder / "recipe.toml");
  recipe << "[job]\ndump_folder = \"" << (folder / "out").string() << "\"\n"
         << "[metrics]\nlog_freq = 1\n"
         << "[model]\nflavor = \"custom\"\ntokenizer = \"byte\"\ndim = 32\nn_layers = 2\nn_heads = "
            "4\nn_kv_heads = 2\nffn_dim = 64\nvocab_size = 258\n"
         << "[optimizer]\nlr = 3e-3\n[lr_scheduler]\nwarmup_steps = 2\n"
         << "[training]\nlocal_batch_size = 2\nglobal_batch_size = 4\nseq_len = 32\nsteps = 12\ndataset_path "
            "= \""
         << (folder / "text.txt").string() << "\"\n"
         << "[validation]\nenable = true\nsplit = 0.05\nlocal_batch_size = 4\nseq_len = 32\nfreq = 6\nsteps "
            "= 3\n"
         << "[checkpoint]\nenable = true\ninterval = 5\nlast_save_model_only = false\n";
  std::vector<std::string> arguments{"train", (folder / "recipe.toml").string()};
  arguments.insert(arguments.end(), overrides.begin(), overrides.end());
  return arguments;
}

std::vector<nlohmann::json> metrics(const std::filesystem::path& folder) {
  std::ifstream in(folder / "out" / "metrics.jsonl");
  std::vector<nlohmann::json> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

std::map<std::int64_t, double> losses(const std::filesystem::path& folder) {
  std::map<std::int64_t, double> result;
  for (const nlohmann::json& line : metrics(folder))
    if (line["kind"] == "train") result[line["step"]] = line["loss"];
  return result;
}

}  // namespace titan::test
