// Where a model runs: the CPU, or a GPU through the CUDA backend.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "kernels/cost/machine.h"
#include "kernels/op/backend.h"

namespace titan {

struct Job;
struct Recipe;

/// What was asked for: debug.device, or --device of commands without a recipe.
struct DeviceRequest {
  std::string device = "auto";  ///< "auto": a GPU where one can be used, else the CPU; "cpu"; "cuda"
  int threads = 0;              ///< of the CPU; 0 = all
  std::string gemm_table = {};  ///< kernels/cuda/library/api.h
};
DeviceRequest device_request(const Recipe& recipe);

/// The device that a request means here. Throws UserError when "cuda" is asked for and cannot be used, with
/// the reason.
DeviceKind choose_device(const DeviceRequest& request);

/// What the planner needs to know of it.
Machine machine_of(const DeviceRequest& request);

std::unique_ptr<Backend> make_backend(const DeviceRequest& request);

/// The threads that compute when `asked` are asked for: for 0, as many as there are processors.
int compute_threads(std::int64_t asked);

/// Of the GPU that would be used; zeros where it is the CPU.
DeviceMemory device_memory(const DeviceRequest& request);

}  // namespace titan
