// Finds and loads the CUDA backend at run time. The executable needs no CUDA to start.
#pragma once

#include <string>

#include "kernels/cuda/library/api.h"

namespace titan::cuda {

/// The loaded library, or why there is none.
struct Library {
  const CudaApi* api = nullptr;
  std::string path;     ///< of the library
  std::string why_not;  ///< empty when api is there
  explicit operator bool() const { return api != nullptr; }
};

/// Loads libtitan_cuda.so from beside the executable, where there is a driver; or, driver or not, the file
/// that TITAN_CUDA_LIBRARY names. The first call loads, later ones give the same.
const Library& load_library();

}  // namespace titan::cuda
