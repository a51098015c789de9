#include "app/bench/ops.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "app/bench/peak.h"
#include "app/trainer/session.h"
#include "engine/bench/report.h"
#include "engine/bench/statistics.h"
#include "engine/model/config.h"
#include "engine/profile/profile.h"
#include "engine/program/order.h"
#include "engine/recipe/recipe.h"
#include "kernels/base/error.h"
#include "kernels/base/philox.h"
#include "kernels/cost/cost.h"
#include "parallelism/compile.h"

namespace titan {
namespace {

std::string dimensions(const Operand& o, bool transposed = false) {
  return transposed ? fmt::format("[{} x {}]", o.cols, o.rows) : fmt::format("[{} x {}]", o.rows, o.cols);
}

std::string attention_shape(const AttentionShape& s, const Operand& q, const Operand& k) {
  return fmt::format("{} x {} queries, {} keys, {} heads of {}, {} kv {}", s.sequences, q.rows / s.sequences,
                     k.rows / s.sequences, s.heads, s.head_dim, s.kv_heads, to_string(q.dtype));
}

/// For a reader: both sides of a product, the shape of an attention, else the first operand.
std::string shape_text(const Op& op) {
  if (const auto* g = std::get_if<Gemm>(&op)) {
    const bool widens = g->c.dtype != g->a.dtype;
    return fmt::format("{} x {} {}{} {}{}", dimensions(g->a, g->transpose_a),
                       dimensions(g->b, g->transpose_b), to_string(g->a.dtype),
                       widens ? fmt::format(" to {}", to_string(g->c.dtype)) : "", g->transpose_a ? 'T' : 'N',
                       g->transpose_b ? 'T' : 'N');
  }
  if (const auto* a = std::get_if<Attention>(&op)) return attention_shape(a->shape, a->q, a->k);
  if (const auto* a = std::get_if<AttentionGrad>(&op)) return attention_shape(a->shape, a->q, a->k);
  const auto* rope = std::get_if<Rope>(&op);
  std::string text;
  for_each_operand(op, [&](const Operand& o, Access, std::string_view name) {
    if (text.empty()) text = fmt::format("{} {} {}", name, dimensions(o), to_string(o.dtype));
  });
  return rope != nullptr && rope->inverse ? text + " inverse" : text;
}

/// All that makes two nodes the same work.
std::string identity(const Op& op) {
  std::string text = fmt::format("{} {}", name_of(op), attributes(op));
  for_each_operand(op, [&](const Operand& o, Access access, std::string_view name) {
    text += fmt::format(" {} {} {} {} {} {}", name, o.rows, o.cols, o.pitch, to_string(o.dtype),
                        static_cast<int>(access));
  });
  return text;
}

/// Tokens that every program takes: random ids in whole sequences, each token's target the next.
void write_inputs(Executor& executor, int index, const Program& program, const StepShape& shape,
                  std::int64_t vocabulary) {
  const auto rows = static_cast<std::size_t>(shape.tokens());
  std::vector<std::int32_t> tokens(rows), targets(rows), positions(rows), doc_start(rows, 0);
  const PhiloxKey key = philox_key(0, hash_name("bench tokens"));
  for (int m = 0; m < shape.micro_batches; ++m) {
    for (std::size_t i = 0; i < rows; ++i) {
      const auto word = philox(key, {static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(m), 0, 0})[0];
      tokens[i] = static_cast<std::int32_t>(word % static_cast<std::uint64_t>(vocabulary));
      positions[i] = static_cast<std::int32_t>(i % static_cast<std::size_t>(shape.seq_len));
    }
    std::rotate_copy(tokens.begin(), tokens.begin() + 1, tokens.end(), targets.begin());
    executor.write(index, program.at("tokens"), tokens.data(), m);
    executor.write(index, program.at("targets"), targets.data(), m);
    executor.write(index, program.at("positions"), positions.data(), m);
    executor.write(index, program.at("doc_start"), doc_start.data(), m);
  }
  const auto valid = static_cast<float>(shape.tokens() * shape.micro_batches);
  executor.write(index, program.at("valid_tokens"), &valid);
  const float hyper[3] = {1e-6f, 0.1f, 0.05f};  // a small learning rate, bias corrections of a first step
  executor.write(index, program.at("hyper"), hyper);
}

bool holds(const OpTime& op, std::string_view filter) {
  return op.op.find(filter) != std::string::npos || op.shape.find(filter) != std::string::npos;
}

/// "1 thread", "2 threads", the name of a GPU.
std::string device_text(const Machine& machine) {
  if (machine.kind == DeviceKind::cuda) return machine.name;
  return fmt::format("{} thread{}", machine.threads, machine.threads == 1 ? "" : "s");
}

double per_second(double amount, double seconds) { return amount / std::max(seconds, 1e-12); }

}  // namespace

std::vector<OpTime> times_by_shape(const Program& program, std::span<const std::vector<CommandTime>> steps,
                                   const Machine& machine) {
  struct Group {
    OpTime time;
    std::vector<double> by_step;
  };
  std::map<std::string, Group> groups;
  const std::vector<Occurrence> occurrences = unroll(program);
  for (std::size_t i = 0; i < occurrences.size(); ++i) {
    const Op& op = occurrences[i].node->op;
    Group& group = groups[identity(op)];
    if (group.by_step.empty()) {
      group.time.op = name_of(op);
      group.time.shape = shape_text(op);
      group.by_step.resize(steps.size());
    }
    const Cost c = cost(op, machine);
    ++group.time.count;
    group.time.flops += static_cast<double>(c.flops);
    group.time.bytes += static_cast<double>(c.bytes_read + c.bytes_written);
    group.time.floor_seconds += c.seconds;
    for (std::size_t s = 0; s < steps.size(); ++s) {
      TITAN_CHECK_EQ(steps[s].size(), occurrences.size());
      group.by_step[s] += steps[s][i].end - steps[s][i].begin;
    }
  }
  std::vector<OpTime> times;
  for (auto& [key, group] : groups) {
    const Spread of_steps = spread(group.by_step);
    group.time.seconds = of_steps.median;
    group.time.fastest = of_steps.min;
    times.push_back(std::move(group.time));
  }
  std::stable_sort(times.begin(), times.end(),
                   [](const OpTime& a, const OpTime& b) { return a.seconds > b.seconds; });
  return times;
}

OpsReport bench_ops(const Recipe& recipe, int steps) {
  check_supported(recipe);
  const Machine local = machine_of(device_request(recipe));
  OpsReport report{.ops = {}, .steps = steps, .device = device_text(local), .threads = local.threads};
  Machine machine = measured_machine(local, device_request(recipe));
  machine.launch_seconds = 0;  // the floor is the arithmetic's and the memory's
  report.flops_f32 = machine.flops_f32;
  report.flops_bf16 = machine.flops_bf16;
  report.bytes_per_second = machine.memory_bytes_per_second;
  if (multiplies_float8(machine)) report.flops_f8 = machine.flops_f8;

  Session session(compile(recipe, Mesh(), local), device_request(recipe));
  session.initialize(static_cast<std::uint64_t>(recipe.debug.seed.value_or(0)));
  session.refresh();
  const int index = session.job().index("train");
  const Program& program = session.job().program("train");
  std::vector<std::vector<CommandTime>> times(static_cast<std::size_t>(steps));
  std::vector<double> seconds;
  for (int step = 0; step <= steps; ++step) {
    std::vector<CommandTime> ran;
    write_inputs(session.executor(), index, program, training_shape(recipe, Mesh()),
                 model_config(recipe).vocab_size);
    session.executor().run(index, &ran);
    if (step == 0) continue;  // memory and caches are cold
    seconds.push_back(duration_of(ran));
    times[static_cast<std::size_t>(step - 1)] = std::move(ran);
  }
  report.step_seconds = spread(seconds).median;
  report.ops = times_by_shape(program, times, machine);
  return report;
}

std::string ops_table(const OpsReport& report, std::string_view filter) {
  std::size_t width = 5;
  for (const OpTime& op : report.ops)
    if (holds(op, filter)) width = std::max(width, op.shape.size());
  std::string text =
      fmt::format("{:<18} {:<{}} {:>5} {:>9} {:>6} {:>9} {:>8} {:>7} {:>8}\n", "operation", "shape", width,
                  "count", "median", "share", "fastest", "GFLOP/s", "GB/s", "of floor");
  double median = 0, fastest = 0, floor = 0;
  for (const OpTime& op : report.ops) {
    median += op.seconds;
    fastest += op.fastest;
    floor += op.floor_seconds;
  }
  for (const OpTime& op : report.ops)
    if (holds(op, filter))
      text += fmt::format("{:<18} {:<{}} {:>5} {:>9} {:>5.1f}% {:>9} {:>8.1f} {:>7.1f} {:>7.0f}%\n", op.op,
                          op.shape, width, op.count, seconds_text(op.seconds), 100 * op.seconds / median,
                          seconds_text(op.fastest), per_second(op.flops, op.fastest) * 1e-9,
                          per_second(op.bytes, op.fastest) * 1e-9,
                          100 * per_second(op.floor_seconds, op.fastest));
  text += fmt::format(
      "\nstep: {} (median of {}); its operations: {} at their medians, {} at their fastest, floor {} "
      "({:.0f} %)\n",
      seconds_text(report.step_seconds), report.steps, seconds_text(median), seconds_text(fastest),
      seconds_text(floor), 100 * per_second(floor, fastest));
  if (report.flops_f8 > 0)
    text += fmt::format("8-bit products on {}, measured here: {:.0f} GFLOP/s\n", report.device,
                        report.flops_f8 * 1e-9);
  return text + fmt::format(
                    "measured here on {}: {:.0f} GFLOP/s f32 and {:.0f} GFLOP/s bf16 products, {:.1f} "
                    "GB/s of memory\n",
                    report.device, report.flops_f32 * 1e-9, report.flops_bf16 * 1e-9,
                    report.bytes_per_second * 1e-9);
}

std::string ops_json(const OpsReport& report, std::string_view filter) {
  nlohmann::ordered_json json;
  json["step_seconds"] = report.step_seconds;
  json["steps"] = report.steps;
  json["device"] = report.device;
  json["threads"] = report.threads;
  json["peak_flops_f32"] = report.flops_f32;
  json["peak_flops_bf16"] = report.flops_bf16;
  json["peak_flops_f8"] = report.flops_f8 > 0 ? nlohmann::ordered_json(report.flops_f8) : nullptr;
  json["bytes_per_second"] = report.bytes_per_second;
  json["ops"] = nlohmann::ordered_json::array();
  for (const OpTime& op : report.ops)
    if (holds(op, filter))
      json["ops"].push_back({{"op", op.op},
                             {"shape", op.shape},
                             {"count", op.count},
                             {"seconds", op.seconds},
                             {"fastest_seconds", op.fastest},
                             {"flops", op.flops},
                             {"bytes", op.bytes},
                             {"floor_seconds", op.floor_seconds}});
  return json.dump(2) + "\n";
}

}  // namespace titan
