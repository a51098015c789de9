# The CUDA backend is compiled twice: for the host, where its tests run everywhere, and by nvcc where there is one.
# titan_cuda_library(name SOURCES a.cu b.cc ... [CUDA_DEPENDS titan_cuda libraries] [DEPENDS others]
#                    [CUDA_LIBRARIES of the toolkit] [HOST_SOURCES c.cc ...] [HOST_DEPENDS ...])
# makes `name`_on_host and, with TITAN_CUDA, `name`. CUDA_LIBRARIES are of the latter alone, HOST_... of the former.

include(CheckLanguage)
check_language(CUDA)
if(CMAKE_CUDA_COMPILER)
  set(cuda_found ON)
else()
  set(cuda_found OFF)
endif()
option(TITAN_CUDA "Build the CUDA backend with nvcc" ${cuda_found})

# all: what a release holds. native: this machine's GPU alone, or sm_80 where there is none; for tests and first runs.
set(TITAN_CUDA_FOR all CACHE STRING "GPUs to build for: all or native")

# The compute capability of the first GPU as CMake names it, with the features of its architecture: 90a-real.
function(titan_native_architecture result)
  execute_process(COMMAND nvidia-smi --query-gpu=compute_cap --format=csv,noheader OUTPUT_VARIABLE found
    RESULT_VARIABLE status ERROR_QUIET)
  set(${result} 80-real PARENT_SCOPE)
  if(status EQUAL 0 AND found MATCHES "^([0-9]+)\\.([0-9])")
    set(architecture ${CMAKE_MATCH_1}${CMAKE_MATCH_2})
    if(architecture GREATER_EQUAL 90)
      string(APPEND architecture a)
    endif()
    set(${result} ${architecture}-real PARENT_SCOPE)
  endif()
endfunction()

if(TITAN_CUDA)
  if(NOT CMAKE_CUDA_ARCHITECTURES AND TITAN_CUDA_FOR STREQUAL "native")
    titan_native_architecture(CMAKE_CUDA_ARCHITECTURES)
  elseif(NOT CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 80-real 90a-real 100-real 80-virtual)
  endif()
  enable_language(CUDA)
  # Newer than CMake 3.25: it does not know how nvcc 13 is asked for C++20, the standard that targets have.
  if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
  endif()
  if(CCACHE)
    set(CMAKE_CUDA_COMPILER_LAUNCHER ${CCACHE})
  endif()
  find_package(CUDAToolkit REQUIRED)
endif()

# ptxas -v: registers, shared memory and spills of every kernel, in the build's output.
option(TITAN_CUDA_VERBOSE "Print what each CUDA kernel uses" OFF)
set(titan_cuda_flags --expt-relaxed-constexpr --extended-lambda -Werror=all-warnings -Xcompiler=-Wall,-Wextra
    $<$<BOOL:${TITAN_CUDA_VERBOSE}>:-Xptxas=-v>)

# The host compiles a .cu by way of a .cc that includes it: the file itself is CUDA to CMake.
function(titan_host_sources result)
  set(sources "")
  foreach(source ${ARGN})
    if(source MATCHES "\\.cu$")
      set(wrapper ${CMAKE_CURRENT_BINARY_DIR}/${source}.cc)
      file(RELATIVE_PATH path ${PROJECT_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR}/${source})
      file(CONFIGURE OUTPUT ${wrapper} CONTENT "#include \"${path}\"\n")
      list(APPEND sources ${wrapper})
    else()
      list(APPEND sources ${source})
    endif()
  endforeach()
  set(${result} ${sources} PARENT_SCOPE)
endfunction()

function(titan_cuda_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS;CUDA_DEPENDS;CUDA_LIBRARIES;HOST_SOURCES;HOST_DEPENDS" ${ARGN})
  titan_host_sources(host_sources ${ARG_SOURCES} ${ARG_HOST_SOURCES})
  list(TRANSFORM ARG_CUDA_DEPENDS APPEND _on_host OUTPUT_VARIABLE on_host)
  titan_library(${name}_on_host SOURCES ${host_sources} DEPENDS ${ARG_DEPENDS} ${on_host} ${ARG_HOST_DEPENDS})
  if(host_sources)
    set_target_properties(${name}_on_host PROPERTIES POSITION_INDEPENDENT_CODE ON)
    # Kernels compute NaN in lanes whose results nobody uses.
    target_compile_options(${name}_on_host PRIVATE -Wno-unknown-pragmas)
  endif()
  if(NOT TITAN_CUDA)
    return()
  endif()
  if(ARG_SOURCES)
    add_library(${name} STATIC ${ARG_SOURCES})
    target_include_directories(${name} PUBLIC ${PROJECT_SOURCE_DIR})
    target_link_libraries(${name} PUBLIC ${ARG_DEPENDS} ${ARG_CUDA_DEPENDS} ${ARG_CUDA_LIBRARIES} CUDA::cudart)
    target_compile_options(${name} PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:${titan_cuda_flags}>
      $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Werror>)
    set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  else()
    add_library(${name} INTERFACE)
    target_include_directories(${name} INTERFACE ${PROJECT_SOURCE_DIR})
    target_link_libraries(${name} INTERFACE ${ARG_DEPENDS} ${ARG_CUDA_DEPENDS} ${ARG_CUDA_LIBRARIES} CUDA::cudart)
  endif()
endfunction()

# titan_cuda_test(NAME_test SOURCES a_test.cc ... [HOST_SOURCES ...] [DEVICE_SOURCES ...] [CUDA_DEPENDS titan_cuda libraries]
#                 [DEPENDS others])
# makes NAME_test, a test on the host's CUDA, and with TITAN_CUDA NAME_device_test, the same cases on a GPU. The latter is
# not in the suite: scripts/gpu_check.sh runs it. titan_cuda_device_tests builds all of these.
function(titan_cuda_test name)
  cmake_parse_arguments(ARG "" "" "SOURCES;HOST_SOURCES;DEVICE_SOURCES;CUDA_DEPENDS;DEPENDS" ${ARGN})
  list(TRANSFORM ARG_CUDA_DEPENDS APPEND _on_host OUTPUT_VARIABLE on_host)
  titan_test(${name} SOURCES ${ARG_SOURCES} ${ARG_HOST_SOURCES} DEPENDS ${ARG_DEPENDS} ${on_host})
  if(NOT TITAN_CUDA)
    return()
  endif()
  string(REGEX REPLACE "_test$" "_device_test" device ${name})
  add_executable(${device} ${ARG_SOURCES} ${ARG_DEVICE_SOURCES})
  target_link_libraries(${device} PRIVATE titan_flags titan_test_main ${ARG_DEPENDS} ${ARG_CUDA_DEPENDS})
  if(NOT TARGET titan_cuda_device_tests)
    add_custom_target(titan_cuda_device_tests)
  endif()
  add_dependencies(titan_cuda_device_tests ${device})
endfunction()
