# Build vocabulary: titan_library, titan_executable and titan_test, so that every folder's CMakeLists.txt is a table.

find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_program(CCACHE ccache)
if(CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
endif()

add_library(titan_flags INTERFACE)
target_compile_options(titan_flags INTERFACE -Wall -Wextra -Werror -Wno-psabi -fno-math-errno -ffp-contract=off)
target_include_directories(titan_flags INTERFACE ${PROJECT_SOURCE_DIR})
if(TITAN_SANITIZE)
  target_compile_options(titan_flags INTERFACE -fsanitize=${TITAN_SANITIZE} -fno-omit-frame-pointer -g1)
  target_link_options(titan_flags INTERFACE -fsanitize=${TITAN_SANITIZE})
  if(TITAN_SANITIZE MATCHES "undefined")
    target_compile_options(titan_flags INTERFACE -fno-sanitize-recover=undefined)
  endif()
endif()
if(TITAN_OPENMP)
  find_package(OpenMP REQUIRED COMPONENTS CXX)
endif()

# titan_library(name SOURCES a.cc ... [DEPENDS targets] [PRIVATE_DEPENDS targets])
# Public headers are included from the repository root: #include "engine/data/tokenizer.h".
function(titan_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS;PRIVATE_DEPENDS" ${ARGN})
  if(ARG_SOURCES)
    add_library(${name} STATIC ${ARG_SOURCES})
    target_link_libraries(${name} PUBLIC ${ARG_DEPENDS} PRIVATE titan_flags ${ARG_PRIVATE_DEPENDS})
    target_include_directories(${name} PUBLIC ${PROJECT_SOURCE_DIR})
  else()
    add_library(${name} INTERFACE)
    target_link_libraries(${name} INTERFACE ${ARG_DEPENDS})
    target_include_directories(${name} INTERFACE ${PROJECT_SOURCE_DIR})
  endif()
endfunction()

# titan_test(name SOURCES a_test.cc ... DEPENDS targets): one Catch2 executable, every test case one ctest entry.
# Test cases tagged [slow] get the label "slow", all others "fast".
function(titan_test name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE titan_flags titan_test_main ${ARG_DEPENDS})
  target_compile_definitions(${name} PRIVATE TITAN_TEST_DATA="${PROJECT_SOURCE_DIR}/tests/data")
  catch_discover_tests(${name} TEST_SPEC "~[slow]" TEST_PREFIX "${name}: " PROPERTIES LABELS fast TIMEOUT 300
    WORKING_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR})
  catch_discover_tests(${name} TEST_SPEC "[slow]" TEST_PREFIX "${name}: " PROPERTIES LABELS slow TIMEOUT 1800
    WORKING_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR})
endfunction()
