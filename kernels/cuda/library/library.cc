#include "kernels/cuda/library/library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>

namespace titan::cuda {
namespace {

namespace fs = std::filesystem;

constexpr const char* kDriver = "libcuda.so.1";

std::string beside_executable() {
  std::error_code error;
  const fs::path executable = fs::read_symlink("/proc/self/exe", error);
  return (executable.parent_path() / "libtitan_cuda.so").string();
}

Library open(const std::string& path) {
  void* const handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const std::string problem = dlerror();
    const bool toolkit =
        problem.find("libcudart") != problem.npos || problem.find("libcublasLt") != problem.npos;
    return {
        .path = path,
        .why_not = fmt::format("cannot load {}: {}{}", path, problem,
                               toolkit ? "; install that version of CUDA's runtime and of cuBLAS, or name "
                                         "their folder in LD_LIBRARY_PATH"
                                       : "")};
  }
  const auto get_api = reinterpret_cast<GetApi>(dlsym(handle, kApiSymbol));
  if (get_api == nullptr)
    return {.path = path, .why_not = fmt::format("{} is no CUDA backend of titan", path)};
  const CudaApi* api = get_api();
  if (std::strcmp(api->build, kBuild) != 0)
    return {.path = path,
            .why_not = fmt::format("{} is of another build ({}; this is {}): build both together", path,
                                   api->build, kBuild)};
  return {.api = api, .path = path, .why_not = {}};
}

Library find() {
  if (const char* asked = std::getenv("TITAN_CUDA_LIBRARY"); asked != nullptr && *asked != '\0')
    return open(asked);
  const std::string path = beside_executable();
  if (!fs::exists(path)) return {.path = path, .why_not = "not built: there is no " + path};
  if (dlopen(kDriver, RTLD_LAZY | RTLD_LOCAL) == nullptr)
    return {.path = path, .why_not = fmt::format("no NVIDIA driver: {} is not found", kDriver)};
  return open(path);
}

}  // namespace

const Library& load_library() {
  static const Library library = find();
  return library;
}

}  // namespace titan::cuda
