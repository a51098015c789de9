#include "engine/executor/executor.h"

#include <fmt/format.h>

#include "engine/program/dump.h"
#include "kernels/base/error.h"

namespace titan {

/// A program's commands, with the addresses of every (micro-batch, slot) that its timeline visits.
struct Executor::Prepared {
  std::vector<Occurrence> occurrences;
  std::vector<std::vector<std::byte*>> tables;
  std::vector<Command> commands;
};

Executor::Executor(const Job& job, Backend& backend, CommunicatorSet* communicators)
    : job_(job), backend_(backend), communicators_(communicators), prepared_(job.programs.size()) {
  for (const Space space : {Space::device, Space::host})
    if (const std::int64_t bytes = arena_bytes(space); bytes > 0)
      arenas_[static_cast<std::size_t>(space)] = backend_.allocate(space, bytes);
}

Executor::~Executor() {
  for (const std::unique_ptr<Prepared>& p : prepared_)
    if (p != nullptr) backend_.forget(p->commands);
}

std::int64_t Executor::arena_bytes(Space space) const { return job_.placement.space(space).arena_bytes; }

bool Executor::host_addressable(int program, ValueId value) const {
  return backend_.host_addressable(job_.programs[static_cast<std::size_t>(program)].value(value).space);
}

std::byte* Executor::address(int program, ValueId value, int instance) const {
  const std::int64_t offset = job_.placement.offset(program, value, instance);
  const Value& v = job_.programs[static_cast<std::size_t>(program)].value(value);
  return offset < 0 ? nullptr : arenas_[static_cast<std::size_t>(v.space)] + offset;
}

const Executor::Prepared& Executor::prepared(int index) {
  std::unique_ptr<Prepared>& slot = prepared_[static_cast<std::size_t>(index)];
  if (slot != nullptr) return *slot;
  const Program& program = job_.programs[static_cast<std::size_t>(index)];
  auto p = std::make_unique<Prepared>();
  p->occurrences = unroll(program);

  std::vector<std::size_t> table_of(static_cast<std::size_t>(program.micro_batches) * program.slots,
                                    SIZE_MAX);
  const auto table_for = [&](const TimelineStep& step) {
    std::size_t& table = table_of[static_cast<std::size_t>(step.micro_batch * program.slots + step.slot)];
    if (table == SIZE_MAX) {
      table = p->tables.size();
      std::vector<std::byte*>& addresses = p->tables.emplace_back(program.values.size());
      for (ValueId id = 0; id < static_cast<ValueId>(program.values.size()); ++id)
        addresses[static_cast<std::size_t>(id)] = address(index, id, instance_of(program.value(id), step));
    }
    return table;
  };

  p->commands.reserve(p->occurrences.size());
  for (const Occurrence& o : p->occurrences) {
    const std::size_t table = table_for(program.timeline[static_cast<std::size_t>(o.step)]);
    Command command{.op = &o.node->op,
                    .binding = {p->tables[table].data(), o.overwrite},
                    .lane = static_cast<int>(o.node->lane),
                    .ticket = o.ticket,
                    .waits = o.waits,
                    .on_host = o.node->lane == Lane::host};
    p->commands.push_back(command);
  }
  // Which tickets other lanes wait for: a wait names the exact ticket.
  std::vector<std::vector<char>> waited(kLanes);
  for (const Occurrence& o : p->occurrences)
    for (const Wait& wait : o.waits) {
      auto& tickets = waited[static_cast<std::size_t>(wait.lane)];
      if (tickets.size() <= static_cast<std::size_t>(wait.ticket))
        tickets.resize(static_cast<std::size_t>(wait.ticket) + 1, 0);
      tickets[static_cast<std::size_t>(wait.ticket)] = 1;
    }
  for (Command& command : p->commands) {
    const auto& tickets = waited[static_cast<std::size_t>(command.lane)];
    command.signals = static_cast<std::size_t>(command.ticket) < tickets.size() &&
                      tickets[static_cast<std::size_t>(command.ticket)] != 0;
  }
  slot = std::move(p);
  return *slot;
}

void Executor::run(int index, std::vector<CommandTime>* times) {
  const Prepared& p = prepared(index);
  if (times != nullptr) times->assign(p.commands.size(), {});
  try {
    backend_.execute(p.commands, communicators_, times != nullptr ? *times : std::span<CommandTime>());
  } catch (const CommandError& error) {
    const Program& program = job_.programs[static_cast<std::size_t>(index)];
    throw NodeError(fmt::format("{}\n  in program {}: {}", error.what(), program.name,
                                dump_node(program, *p.occurrences[error.index()].node)));
  }
}

void Executor::write(int program, ValueId value, const void* from, int instance) {
  const Value& v = job_.programs[static_cast<std::size_t>(program)].value(value);
  TITAN_CHECK(v.pitch == v.cols || v.rows <= 1, "{} is not contiguous", v.name);
  if (std::byte* to = address(program, value, instance)) backend_.upload(from, to, v.bytes());
}

void Executor::read(int program, ValueId value, void* to, int instance) const {
  const Value& v = job_.programs[static_cast<std::size_t>(program)].value(value);
  TITAN_CHECK(v.pitch == v.cols || v.rows <= 1, "{} is not contiguous", v.name);
  const std::byte* from = address(program, value, instance);
  TITAN_CHECK(from != nullptr, "{} has no memory: the program does not use it", v.name);
  backend_.download(from, to, v.bytes());
}

void Executor::write_elements(int program, ValueId value, std::int64_t begin,
                              std::span<const float> from) const {
  backend_.upload(from.data(), address(program, value) + begin * size_of(DType::f32),
                  static_cast<std::int64_t>(from.size_bytes()));
}

void Executor::read_elements(int program, ValueId value, std::int64_t begin, std::span<float> to) const {
  backend_.download(address(program, value) + begin * size_of(DType::f32), to.data(),
                    static_cast<std::int64_t>(to.size_bytes()));
}

}  // namespace titan
