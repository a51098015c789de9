// The executor on a backend that records what it is asked for: nothing here knows of the CPU.
#include "engine/executor/executor.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <memory>

#include "engine/program/builder.h"
#include "kernels/op/backend.h"

using namespace titan;

namespace {

class RecordingBackend final : public Backend {
 public:
  struct Block {
    Space space;
    std::int64_t bytes;
    std::unique_ptr<std::byte[]> memory;
  };

  std::byte* allocate(Space space, std::int64_t bytes) override {
    blocks.push_back({space, bytes, std::make_unique<std::byte[]>(static_cast<std::size_t>(bytes))});
    return blocks.back().memory.get();
  }
  void execute(std::span<const Command> list, CommunicatorSet*, std::span<CommandTime> times) override {
    for (std::size_t i = 0; i < times.size(); ++i)
      times[i] = {static_cast<double>(i), static_cast<double>(i) + 1};
    commands.assign(list.begin(), list.end());
    executed = list.data();
    if (fail_at >= 0) throw CommandError(static_cast<std::size_t>(fail_at), "out of order");
  }
  void forget(std::span<const Command> list) override { forgotten.push_back(list.data()); }
  bool host_addressable(Space space) const override { return space == Space::host; }
  void upload(const void* from, std::byte* to, std::int64_t bytes) override {
    std::memcpy(to, from, static_cast<std::size_t>(bytes));
  }
  void download(const std::byte* from, void* to, std::int64_t bytes) override {
    std::memcpy(to, from, static_cast<std::size_t>(bytes));
  }

  bool holds(const std::byte* p, std::int64_t bytes) const {
    for (const Block& b : blocks)
      if (p >= b.memory.get() && p + bytes <= b.memory.get() + b.bytes) return true;
    return false;
  }

  std::vector<Block> blocks;
  std::vector<Command> commands;
  const Command* executed = nullptr;
  std::vector<const Command*> forgotten;
  int fail_at = -1;
};

/// Two micro-batches: x (input) → y on another lane → sum over the micro-batches; a host copy of the sum.
Job small_job() {
  ProgramBuilder b("small");
  const ValueId x = b.value("x", DType::f32, 1, 64, {.role = Role::input, .lifetime = Lifetime::micro_batch});
  const ValueId y = b.value("y", DType::f32, 1, 64);
  const ValueId sum = b.value("sum", DType::f32, 1, 32, {.role = Role::output, .lifetime = Lifetime::step});
  const ValueId staged = b.value("staged", DType::f32, 1, 32,
                                 {.role = Role::output, .lifetime = Lifetime::step, .space = Space::host});
  b.begin_segment("forward");
  b.emit(Copy{.x = b.in(x), .y = b.out(y)});
  b.emit(ReduceScatter{.full = b.in(y), .shard = b.result(sum, true)}, Lane::fsdp);
  b.begin_segment("optimizer");
  b.emit(Copy{.x = b.in(sum), .y = b.out(staged)}, Lane::offload);
  set_accumulation_timeline(b.program(), 2);
  Job job;
  job.programs.push_back(b.take());
  place(job);
  return job;
}

}  // namespace

TEST_CASE("the executor allocates what placement predicts, once, for each space") {
  const Job job = small_job();
  RecordingBackend backend;
  Executor executor(job, backend);
  executor.run(0);
  executor.run(0);
  REQUIRE(backend.blocks.size() == 2);
  CHECK(backend.blocks[0].bytes == job.placement.space(Space::device).arena_bytes);
  CHECK(backend.blocks[1].bytes == job.placement.space(Space::host).arena_bytes);
  CHECK(backend.blocks[1].space == Space::host);
}

TEST_CASE("commands come in list order with tickets, waits, signals, first writes and addresses") {
  const Job job = small_job();
  RecordingBackend backend;
  Executor executor(job, backend);
  executor.run(0);
  const std::vector<Command>& c = backend.commands;
  REQUIRE(c.size() == 5);
  CHECK((c[0].lane == 0 && c[0].ticket == 1 && c[0].waits.empty() && c[0].signals));
  CHECK((c[1].lane == 1 && c[1].ticket == 1 && c[1].binding.overwrite == 0b10));
  CHECK((c[2].ticket == 2 && c[2].waits.size() == 1 && c[2].waits[0].lane == 1 && c[2].waits[0].ticket == 1));
  CHECK((c[3].ticket == 2 && c[3].binding.overwrite == 0));
  CHECK((c[4].lane == static_cast<int>(Lane::offload) && !c[4].signals));
  const Program& p = job.programs[0];
  for (const Command& command : c)
    for_each_operand(*command.op, [&](const Operand& o, Access, std::string_view) {
      CHECK(backend.holds(command.binding.addresses[o.value], o.bytes()));
    });
  const ValueId x = p.at("x"), y = p.at("y");
  CHECK(c[0].binding.addresses[x] != c[2].binding.addresses[x]);  // each micro-batch has its own input
  CHECK(c[0].binding.addresses[y] == c[2].binding.addresses[y]);  // and both use the one slot
}

TEST_CASE("values go in and out whole; views too") {
  ProgramBuilder b("p");
  const ValueId x = b.value("x", DType::i32, 2, 4, {.role = Role::input, .lifetime = Lifetime::step});
  const ValueId row = b.view("row", x, 1, 1, 0, 4);
  const ValueId column = b.view("column", x, 0, 2, 0, 1);
  b.begin_segment("s");
  b.emit(Copy{.x = b.in(x), .y = b.out(b.value("y", DType::i32, 2, 4))});
  set_straight_timeline(b.program());
  Job job;
  job.programs.push_back(b.take());
  place(job);
  RecordingBackend backend;
  Executor executor(job, backend);
  const std::int32_t values[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  executor.write(0, x, values);
  std::int32_t second[4] = {};
  executor.read(0, row, second);
  CHECK((second[0] == 5 && second[3] == 8));
  CHECK_THROWS_WITH(executor.read(0, column, second), Catch::Contains("not contiguous"));
}

TEST_CASE("an error names the node as dump prints it") {
  const Job job = small_job();
  RecordingBackend backend;
  backend.fail_at = 1;
  Executor executor(job, backend);
  CHECK_THROWS_WITH(executor.run(0), Catch::Contains("out of order") && Catch::Contains("fsdp") &&
                                         Catch::Contains("reduce_scatter") &&
                                         Catch::Contains("sum[1,32]f32"));
}

TEST_CASE("elements go in and out of values that the host cannot address") {
  const Job job = small_job();
  RecordingBackend backend;
  Executor executor(job, backend);
  const ValueId sum = job.programs[0].at("sum");
  CHECK(!executor.host_addressable(0, sum));
  CHECK(executor.host_addressable(0, job.programs[0].at("staged")));
  const float some[3] = {5, 6, 7};
  executor.write_elements(0, sum, 29, some);
  float all[32] = {}, last[2] = {};
  executor.read(0, sum, all);
  executor.read_elements(0, sum, 30, last);
  CHECK((all[28] == 0 && all[29] == 5 && all[31] == 7));
  CHECK((last[0] == 6 && last[1] == 7));
}

TEST_CASE("commands stay where they are until the backend is told to forget them") {
  const Job job = small_job();
  RecordingBackend backend;
  const Command* first = nullptr;
  {
    Executor executor(job, backend);
    executor.run(0);
    first = backend.executed;
    executor.run(0);
    CHECK(backend.executed == first);
    CHECK(backend.forgotten.empty());
  }
  CHECK(backend.forgotten == std::vector<const Command*>{first});
}
