#include "engine/metrics/memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>

namespace titan {
namespace {

namespace fs = std::filesystem;

std::string read_text(const fs::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  if (file) text << file.rdbuf();
  return text.str();
}

// nullopt for anything but a number, such as cgroup v2's "max".
std::optional<int64_t> parse_number(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t");
  if (begin == text.npos) return std::nullopt;
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data() + begin, text.data() + text.size(), value);
  if (error != std::errc()) return std::nullopt;
  return value;
}

// The number after `key` at the start of a line.
std::optional<int64_t> field(std::string_view text, std::string_view key) {
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = text.substr(begin, end - begin);
    if (line.substr(0, key.size()) == key) return parse_number(line.substr(key.size()));
    begin = end + 1;
  }
  return std::nullopt;
}

// /proc gives kB, which are KiB.
int64_t kib_field(std::string_view text, std::string_view key) { return field(text, key).value_or(0) * 1024; }

struct CgroupFiles {
  const char* limit;
  const char* usage;
  const char* reclaimable;  // a field of memory.stat: file cache the kernel drops before it refuses memory
};
constexpr CgroupFiles kV1{"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file "};
constexpr CgroupFiles kV2{"memory.max", "memory.current", "inactive_file "};

void apply_limit(MachineMemory& memory, const fs::path& folder, const CgroupFiles& files) {
  const auto limit = parse_number(read_text(folder / files.limit));
  if (!limit) return;
  memory.total = std::min(memory.total, *limit);
  const int64_t usage = parse_number(read_text(folder / files.usage)).value_or(0);
  const int64_t reclaimable = field(read_text(folder / "memory.stat"), files.reclaimable).value_or(0);
  const int64_t in_use = std::max<int64_t>(0, usage - reclaimable);
  memory.available = std::min(memory.available, std::max<int64_t>(0, *limit - in_use));
}

// A group's memory is bounded by its own limit and by those of all groups above it. Inside a container the
// path may name folders of the host that are not mounted; they are skipped.
void apply_limits(MachineMemory& memory, const fs::path& mount, std::string_view group,
                  const CgroupFiles& files) {
  apply_limit(memory, mount, files);
  fs::path folder = mount;
  for (const fs::path& part : fs::path(group).relative_path()) {
    folder /= part;
    apply_limit(memory, folder, files);
  }
}

}  // namespace

ProcessMemory process_memory(const fs::path& root) {
  const std::string status = read_text(root / "proc/self/status");
  return {.resident = kib_field(status, "VmRSS:"),
          .anonymous = kib_field(status, "RssAnon:"),
          .peak_resident = kib_field(status, "VmHWM:")};
}

MachineMemory machine_memory(const fs::path& root) {
  const std::string meminfo = read_text(root / "proc/meminfo");
  MachineMemory memory{.total = kib_field(meminfo, "MemTotal:"),
                       .available = kib_field(meminfo, "MemAvailable:")};

  const std::string limits = read_text(root / "proc/self/limits");
  if (const auto limit = field(limits, "Max address space"))
    memory.address_space = *limit - kib_field(read_text(root / "proc/self/status"), "VmSize:");

  std::istringstream groups(read_text(root / "proc/self/cgroup"));  // hierarchy:controllers:path
  for (std::string line; std::getline(groups, line);) {
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (first == line.npos || second == line.npos) continue;
    const std::string controllers = fmt::format(",{},", line.substr(first + 1, second - first - 1));
    const std::string group = line.substr(second + 1);
    if (controllers == ",,") apply_limits(memory, root / "sys/fs/cgroup", group, kV2);
    if (controllers.find(",memory,") != controllers.npos)
      apply_limits(memory, root / "sys/fs/cgroup/memory", group, kV1);
  }
  return memory;
}

}  // namespace titan
