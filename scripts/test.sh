#!/usr/bin/env bash
# Installs, builds and checks everything: format, layers, sanitizers, tests. Ends with the summary of the tests.
#
#   scripts/test.sh           all of it, within an hour on two cores
#   scripts/test.sh --fast    without the sanitizers and the slow tests
set -euo pipefail
cd "$(dirname "$0")/.."
# Tests run side by side: idle OpenMP threads must not take the processors from each other.
export OMP_WAIT_POLICY=passive

# Lanes, collectives, programs of two ranks, saves in the background: all that runs on several threads beside OpenMP.
readonly tsan_tests=(comm_test cpu_backend_test executor_test compile_test checkpoint_test trainer_test)
# All that computes addresses or reads bytes from outside.
readonly asan_tests=(
  titan_op_test gemm_test amx_gemm_test titan_cpu_attention_test cpu_backend_test comm_test
  program_test passes_test executor_test compile_test model_test
  tokenizer_test data_test checkpoint_test recipe_test metrics_test profile_test
  cuda_host_test cuda_mma_test cuda_hopper_test cuda_op_test cuda_gemm_test cuda_attention_test cuda_movement_test cuda_backend_test
  fuzz  # the corpus; scripts/fuzz.sh looks for new inputs
)

usage() { sed -n '2,/^set/s/^# \{0,1\}//p' "$0"; }
say() { printf '\n== %s (%d:%02d)\n' "$1" $((SECONDS / 60)) $((SECONDS % 60)); }
join() { local IFS='|'; echo "$*"; }

# sanitize PRESET TEST...: builds these tests only, and runs their fast cases.
sanitize() {
  local preset=$1
  shift
  say "Tests under $preset"
  cmake --preset "$preset" -DTITAN_CUDA=OFF
  cmake --build --preset "$preset" --target "$@"
  ctest --test-dir "build/$preset" --output-on-failure --progress --no-tests=error -L fast -R "^($(join "$@")):"
}

fast=false
case "${1:-}" in
  "") ;;
  --fast) fast=true ;;
  -h | --help) usage; exit 0 ;;
  *) usage >&2; exit 2 ;;
esac

say "Packages"
scripts/install_deps.sh test
say "Format and layers"
scripts/check_format.sh
scripts/check_layers
say "Build"
cmake --preset release -DTITAN_TESTS=ON -DTITAN_CUDA_FOR=native
cmake --build --preset release
if ! $fast; then
  sanitize asan "${asan_tests[@]}"
  sanitize tsan "${tsan_tests[@]}"
fi
say "Tests"
label=()
if $fast; then label=(-L fast); fi
ctest --test-dir build/release --output-on-failure --no-tests=error "${label[@]}"
