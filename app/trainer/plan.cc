#include "app/trainer/plan.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <variant>

#include "engine/metrics/flops.h"
#include "engine/model/config.h"
#include "engine/profile/profile.h"
#include "engine/program/job.h"
#include "engine/recipe/recipe.h"
#include "kernels/cost/machine.h"
#include "parallelism/compile.h"

namespace titan {
namespace {

std::string bytes_text(std::int64_t bytes) {
  return fmt::format("{:>16} B  {:>9.3f} GiB", bytes, static_cast<double>(bytes) / (1 << 30));
}

std::string role_lines(const std::array<std::int64_t, kRoles>& by_role, const char* indent) {
  std::string text;
  for (int role = 0; role < kRoles; ++role)
    if (const std::int64_t bytes = by_role[static_cast<std::size_t>(role)]; bytes > 0)
      text += fmt::format("{}{:<18}{}\n", indent, to_string(static_cast<Role>(role)), bytes_text(bytes));
  return text;
}

nlohmann::json role_json(const std::array<std::int64_t, kRoles>& by_role) {
  nlohmann::json object = nlohmann::json::object();
  for (int role = 0; role < kRoles; ++role)
    if (by_role[static_cast<std::size_t>(role)] > 0)
      object[to_string(static_cast<Role>(role))] = by_role[static_cast<std::size_t>(role)];
  return object;
}

nlohmann::json float8_json(const Recipe& recipe) {
  nlohmann::json list = nlohmann::json::array();
  for (const Float8Linear& linear : float8_linears(recipe, Mesh())) {
    nlohmann::json entry = {{"layers", linear.names}, {"float8", linear.quantized()}};
    if (!linear.quantized()) entry["reason"] = linear.excluded;
    list.push_back(std::move(entry));
  }
  return list;
}

}  // namespace

std::vector<std::string> float8_lines(const Recipe& recipe) {
  if (!recipe.model.uses_float8()) return {};
  std::vector<std::string> lines{
      fmt::format("Float8 training, {}", recipe.quantize.linear.float8.recipe_name.value_or("tensorwise"))};
  for (const std::string& line : describe(float8_linears(recipe, Mesh()))) lines.push_back("  " + line);
  return lines;
}

double model_flops(const Recipe& recipe, const ModelConfig& c) {
  return flops_per_token({.parameters = parameter_count(c),
                          .embedding_parameters = embedding_parameter_count(c),
                          .layers = c.n_layers,
                          .heads = c.n_heads,
                          .head_dim = c.head_dim},
                         recipe.training.seq_len);
}

std::string plan_report(const Recipe& recipe, const ModelConfig& config, const Job& job,
                        const Machine& machine) {
  const SpaceReport &device = job.placement.space(Space::device), &host = job.placement.space(Space::host);
  std::string text = describe(config) + "\n";
  for (const std::string& line : float8_lines(recipe)) text += line + "\n";
  text += fmt::format("FLOPs/token      {:.4g}\n", model_flops(recipe, config));
  text += fmt::format("memory           {}  one arena\n", bytes_text(device.arena_bytes));
  text += fmt::format("  persistent       {}\n", bytes_text(device.persistent_bytes)) +
          role_lines(device.persistent_by_role, "    ");
  if (machine.reserved_bytes > 0)
    text += fmt::format("  beside it        {}  kept for libraries and graphs; measured in a run\n",
                        bytes_text(machine.reserved_bytes));
  if (host.arena_bytes > 0)
    text += fmt::format("host memory      {}\n", bytes_text(host.arena_bytes)) +
            fmt::format("  persistent       {}\n", bytes_text(host.persistent_bytes)) +
            role_lines(host.persistent_by_role, "    ");
  for (std::size_t i = 0; i < job.programs.size(); ++i) {
    const Program& program = job.programs[i];
    const TransientReport& t = device.programs[i];
    const ProgramTotals sum = totals(program, machine);
    text += fmt::format("program {}: {} nodes run, {:.4g} FLOPs, predicted {:.3f} s on {}\n", program.name,
                        sum.nodes, static_cast<double>(sum.flops), sum.seconds, machine.name);
    text += fmt::format("  transient        {}\n", bytes_text(t.bytes)) + role_lines(t.by_role, "    ");
    text +=
        fmt::format("  largest live set {}, waste {:.2f} %\n", bytes_text(t.lower_bound), 100 * t.waste());
    if (const TransientReport& h = host.programs[i]; h.bytes > 0)
      text += fmt::format("  host transient   {}\n", bytes_text(h.bytes)) + role_lines(h.by_role, "    ");
  }
  return text;
}

std::string plan_json(const Recipe& recipe, const ModelConfig& config, const Job& job,
                      const Machine& machine) {
  const SpaceReport &device = job.placement.space(Space::device), &host = job.placement.space(Space::host);
  nlohmann::json plan;
  plan["model"] = config.flavor;
  plan["parameters"] = parameter_count(config);
  plan["flops_per_token"] = model_flops(recipe, config);
  plan["arena_bytes"] = device.arena_bytes;
  plan["reserved_bytes"] = machine.reserved_bytes;
  plan["persistent_bytes"] = device.persistent_bytes;
  plan["persistent_by_role"] = role_json(device.persistent_by_role);
  plan["host_arena_bytes"] = host.arena_bytes;
  plan["host_persistent_by_role"] = role_json(host.persistent_by_role);
  for (std::size_t i = 0; i < job.programs.size(); ++i) {
    const ProgramTotals sum = totals(job.programs[i], machine);
    plan["programs"][job.programs[i].name] = {{"transient_bytes", device.programs[i].bytes},
                                              {"largest_live_set_bytes", device.programs[i].lower_bound},
                                              {"transient_by_role", role_json(device.programs[i].by_role)},
                                              {"host_transient_bytes", host.programs[i].bytes},
                                              {"host_transient_by_role", role_json(host.programs[i].by_role)},
                                              {"nodes", sum.nodes},
                                              {"flops", sum.flops},
                                              {"predicted_seconds", sum.seconds}};
  }
  if (recipe.model.uses_float8()) plan["linear_layers"] = float8_json(recipe);
  return plan.dump(2) + "\n";
}

}  // namespace titan
