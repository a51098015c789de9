// What a compiled recipe will do, before it does it: parameters, FLOPs, memory by role. The memory is the
// arena's, to the byte.
#pragma once

#include <string>
#include <vector>

namespace titan {

struct Job;
struct Machine;
struct ModelConfig;
struct Recipe;

/// FLOPs that training on one token costs, as MFU counts them.
double model_flops(const Recipe& recipe, const ModelConfig& config);

/// Which linear layers are multiplied in 8 bits, and why others are not; none when the recipe has no Float8.
std::vector<std::string> float8_lines(const Recipe& recipe);

/// For people.
std::string plan_report(const Recipe& recipe, const ModelConfig& config, const Job& job,
                        const Machine& machine);
/// One JSON object for programs: parameters, flops_per_token, arena_bytes, persistent_bytes,
/// host_arena_bytes, by program and role, and linear layers with Float8.
std::string plan_json(const Recipe& recipe, const ModelConfig& config, const Job& job,
                      const Machine& machine);

}  // namespace titan
