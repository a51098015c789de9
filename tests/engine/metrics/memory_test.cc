#include "engine/metrics/memory.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <vector>

#include "tests/engine/metrics/file_support.h"
#include "tests/support/temp_dir.h"

namespace titan {
namespace {

constexpr int64_t kMiB = 1 << 20;

TEST_CASE("touched memory shows up as anonymous and resident") {
  const ProcessMemory before = process_memory();
  CHECK(before.anonymous > 0);
  CHECK(before.resident >= before.anonymous);
  CHECK(before.peak_resident >= before.resident);

  std::vector<char> block(64 * kMiB, 1);
  const ProcessMemory after = process_memory();
  CHECK(after.anonymous - before.anonymous >= 63 * kMiB);
  CHECK(after.peak_resident >= before.resident + 63 * kMiB);
  CHECK(block.back() == 1);
}

TEST_CASE("this machine has memory") {
  const MachineMemory memory = machine_memory();
  CHECK(memory.total > 0);
  CHECK(memory.available > 0);
  CHECK(memory.available <= memory.total);
}

// A made-up machine of 1000 MiB, 800 of them available.
class FakeMachine {
 public:
  FakeMachine() {
    write("proc/meminfo", "MemTotal:        1024000 kB\nMemFree:  1 kB\nMemAvailable:     819200 kB\n");
  }
  void write(const std::string& path, const std::string& text) { test::write_file(folder_ / path, text); }
  MachineMemory memory() const { return machine_memory(folder_.path()); }

 private:
  test::TempDir folder_;
};

TEST_CASE("without a limit the machine's numbers count") {
  FakeMachine machine;
  machine.write("proc/self/cgroup", "0::/user.slice\n");
  machine.write("sys/fs/cgroup/user.slice/memory.max", "max\n");
  CHECK(machine.memory().total == 1000 * kMiB);
  CHECK(machine.memory().available == 800 * kMiB);
}

TEST_CASE("a limit of cgroup v2, here or above, bounds both; file cache is available") {
  FakeMachine machine;
  machine.write("proc/self/cgroup", "0::/job/step\n");
  machine.write("sys/fs/cgroup/job/memory.max", "419430400\n");                         // 400 MiB
  machine.write("sys/fs/cgroup/job/memory.current", "209715200\n");                     // 200 MiB, of which
  machine.write("sys/fs/cgroup/job/memory.stat", "anon 1\ninactive_file 104857600\n");  // 100 MiB are cache
  machine.write("sys/fs/cgroup/job/step/memory.max", "max\n");
  CHECK(machine.memory().total == 400 * kMiB);
  CHECK(machine.memory().available == 300 * kMiB);
}

TEST_CASE("a container sees its limit at the mount, whatever path the host gave it") {
  FakeMachine machine;
  machine.write("proc/self/cgroup", "0::/kubepods/pod1\n");
  machine.write("sys/fs/cgroup/memory.max", "104857600\n");
  machine.write("sys/fs/cgroup/memory.current", "209715200\n");  // over its limit: nothing is left
  CHECK(machine.memory().total == 100 * kMiB);
  CHECK(machine.memory().available == 0);
}

TEST_CASE("a limit of cgroup v1") {
  FakeMachine machine;
  machine.write("proc/self/cgroup", "5:cpu,cpuacct:/slurm\n4:memory:/slurm/job_7\n0::/\n");
  machine.write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");  // none
  machine.write("sys/fs/cgroup/memory/slurm/job_7/memory.limit_in_bytes", "524288000\n");
  machine.write("sys/fs/cgroup/memory/slurm/job_7/memory.usage_in_bytes", "104857600\n");
  CHECK(machine.memory().total == 500 * kMiB);
  CHECK(machine.memory().available == 400 * kMiB);
}

TEST_CASE("a limit of the address space leaves what is not mapped yet") {
  FakeMachine machine;
  machine.write("proc/self/status", "VmSize:   102400 kB\n");
  const std::string head = "Limit                     Soft Limit           Hard Limit           Units     \n";
  machine.write("proc/self/limits",
                head + "Max address space         unlimited            unlimited            bytes     \n");
  CHECK(!machine.memory().address_space);
  machine.write("proc/self/limits",
                head + "Max address space         157286400            unlimited            bytes     \n");
  CHECK(machine.memory().address_space == 50 * kMiB);
}

TEST_CASE("a system without these files reads as zero") {
  const test::TempDir empty;
  CHECK(machine_memory(empty.path()).total == 0);
  CHECK(process_memory(empty.path()).resident == 0);
}

}  // namespace
}  // namespace titan
