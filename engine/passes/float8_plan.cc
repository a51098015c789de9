#include "engine/passes/float8_plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "engine/huggingface/names.h"
#include "kernels/base/error.h"
#include "kernels/op/float8_rules.h"

namespace titan {
namespace {

constexpr std::string_view kLayers = "model.layers.";

/// What the program does with a weight.
struct Usage {
  std::set<std::int64_t> tokens;  ///< rows of the products y = x · weightᵀ
  bool embeds = false;            ///< it is also the embedding table: the head is tied to it
};

std::map<ValueId, Usage> find_usage(const Program& program) {
  std::map<ValueId, Usage> usage;
  for (const Segment& segment : program.segments)
    for (const Node& node : segment.nodes) {
      if (const auto* gemm = std::get_if<Gemm>(&node.op); gemm != nullptr && gemm->transpose_b)
        if (const ValueId base = program.base_of(gemm->b.value); program.value(base).role == Role::weight)
          usage[base].tokens.insert(gemm->a.rows);
      if (const auto* embedding = std::get_if<Embedding>(&node.op))
        usage[program.base_of(embedding->table.value)].embeds = true;
    }
  return usage;
}

/// Without ".weight": filters name modules.
std::string module_name(const std::string& parameter) {
  constexpr std::string_view kSuffix = ".weight";
  return parameter.ends_with(kSuffix) ? parameter.substr(0, parameter.size() - kSuffix.size()) : parameter;
}

class Planner {
 public:
  Planner(const Program& program, const Float8Recipe& recipe)
      : p_(program), recipe_(recipe), usage_(find_usage(program)) {}

  std::vector<Float8Linear> run() {
    for (const Parameter& parameter : p_.parameters) {
      const auto use = usage_.find(p_.base_of(parameter.weight));
      if (use != usage_.end() && !use->second.tokens.empty()) add(parameter, use->second);
    }
    for (Float8Linear& linear : linears_)
      if (linear.quantized()) linear.excluded = size_problem(linear);
    return std::move(linears_);
  }

 private:
  void add(const Parameter& parameter, const Usage& usage) {
    const Value& v = p_.value(parameter.weight);
    const std::string name = usage.embeds ? "lm_head" : module_name(parameter.name);
    Float8Linear linear{.names = {name},
                        .layer = parameter.layer,
                        .weight = p_.base_of(parameter.weight),
                        .first_row = v.offset / size_of(v.dtype) / v.cols,
                        .rows = v.rows,
                        .cols = v.cols,
                        .excluded = filtered(name)};
    if (!linears_.empty() && linears_.back().weight == linear.weight &&
        linears_.back().excluded == linear.excluded) {
      linears_.back().names.push_back(name);
      linears_.back().rows += linear.rows;
      return;
    }
    linears_.push_back(std::move(linear));
  }

  std::string filtered(const std::string& name) const {
    const std::string other = module_name(meta_name(fmt::format("{}.weight", name)));
    for (const std::string& filter : recipe_.filters)
      if (name.find(filter) != std::string::npos || other.find(filter) != std::string::npos)
        return fmt::format("filter_fqns has \"{}\"", filter);
    return {};
  }

  std::string size_problem(const Float8Linear& linear) const {
    for (const std::int64_t size : {linear.rows, linear.cols})
      if (size % kFloat8Multiple != 0)
        return fmt::format("{} x {} is not divisible by {}", linear.rows, linear.cols, kFloat8Multiple);
    for (const std::int64_t tokens : usage_.at(linear.weight).tokens)
      if (tokens % kFloat8Multiple != 0)
        return fmt::format("{} tokens at a time are not divisible by {}", tokens, kFloat8Multiple);
    return {};
  }

  const Program& p_;
  const Float8Recipe& recipe_;
  std::map<ValueId, Usage> usage_;
  std::vector<Float8Linear> linears_;
};

/// "self_attn.q_proj" of "model.layers.3.self_attn.q_proj".
std::string within_layer(const std::string& name) {
  return name.starts_with(kLayers) ? name.substr(name.find('.', kLayers.size()) + 1) : name;
}

/// "self_attn.q_proj|k_proj|v_proj".
std::string joined(const Float8Linear& linear) {
  std::string text = within_layer(linear.names.front());
  for (std::size_t i = 1; i < linear.names.size(); ++i)
    text += fmt::format("|{}", linear.names[i].substr(linear.names[i].rfind('.') + 1));
  return text;
}

/// "0-3,5" of 0 1 2 3 5.
std::string ranges(const std::vector<int>& layers) {
  std::string text;
  for (std::size_t i = 0, next; i < layers.size(); i = next) {
    next = i + 1;
    while (next < layers.size() && layers[next] == layers[next - 1] + 1) ++next;
    text += fmt::format("{}{}", text.empty() ? "" : ",", layers[i]);
    if (next - i > 1) text += fmt::format("-{}", layers[next - 1]);
  }
  return text;
}

}  // namespace

const char* to_string(Float8Scaling scaling) {
  constexpr const char* kNames[] = {"tensorwise", "rowwise", "rowwise_with_gw_hp"};
  return kNames[static_cast<int>(scaling)];
}

Float8Scaling parse_float8_scaling(const std::string& name) {
  for (const Float8Scaling scaling :
       {Float8Scaling::tensorwise, Float8Scaling::rowwise, Float8Scaling::rowwise_with_gw_hp})
    if (name == to_string(scaling)) return scaling;
  throw UsageError(fmt::format(
      "quantize.linear.float8.recipe_name is '{}'; use tensorwise, rowwise or rowwise_with_gw_hp", name));
}

std::vector<Float8Linear> plan_float8(const Program& program, const Float8Recipe& recipe) {
  return Planner(program, recipe).run();
}

std::vector<std::string> describe(const std::vector<Float8Linear>& linears) {
  struct Kind {
    std::string name, treatment;
    std::vector<int> layers;
  };
  std::vector<Kind> kinds;
  for (const Float8Linear& linear : linears) {
    const std::string name = joined(linear);
    const std::string treatment = linear.quantized() ? "float8" : "bfloat16, " + linear.excluded;
    auto kind = std::find_if(kinds.begin(), kinds.end(),
                             [&](const Kind& k) { return k.name == name && k.treatment == treatment; });
    if (kind == kinds.end()) kind = kinds.insert(kinds.end(), {name, treatment, {}});
    if (linear.layer >= 0) kind->layers.push_back(linear.layer);
  }
  std::vector<std::string> lines;
  for (const Kind& kind : kinds)
    lines.push_back(fmt::format("{}{}: {}",
                                kind.layers.empty() ? "" : fmt::format("layers {} ", ranges(kind.layers)),
                                kind.name, kind.treatment));
  return lines;
}

}  // namespace titan
