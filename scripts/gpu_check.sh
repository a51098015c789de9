#!/usr/bin/env bash
# Builds, tests and measures titan on the GPU of this machine. No network is needed. docs/gpu.md explains the results.
#
#   scripts/gpu_check.sh --phase build     titan, libtitan_cuda.so for this GPU, the tests that run on it
#   scripts/gpu_check.sh --phase ops       those tests, compute-sanitizer, every operation against the GPU's own limits
#   scripts/gpu_check.sh --phase train     Llama 1B and 8B in bf16 and Float8, beside PyTorch where it is installed
#   scripts/gpu_check.sh --report          the table of all results so far; each phase ends with it
#
#   --out DIR      where results are, build/gpu unless named: results.jsonl, report.md and a log of each phase
#   --again        also the steps that are done already; without it a call goes on where the last one ended
#   --seconds N    what a phase may take, 460 unless named; what does not fit waits for the next call
#   --build DIR    the build folder, build/release unless named
#   --deps DIR     libraries unpacked by install_deps.sh --bundle, build/deps unless named, used if it is there
#   --host         the same steps on tiny shapes without a GPU, through CUDA on the host: a test of this script
#
# A step that fails does not stop the others. Environment: PYTHON is a Python with torch, python3 unless set; it also makes
# the tables, which needs no package. Exit status: 0 all steps are done, 1 some failed or did not run, 2 wrong usage or no GPU.
set -euo pipefail

usage() { sed -n '2,/^set/s/^# \{0,1\}//p' "$0"; }
fail() { echo "gpu_check: $*" >&2; exit 2; }

phase="" report_only=false again=false host=false seconds=460 out="" build="" deps=""
while (($#)); do
  case $1 in
    --phase) phase=${2:-}; shift ;;
    --report) report_only=true ;;
    --out) out=${2:-}; shift ;;
    --build) build=${2:-}; shift ;;
    --deps) deps=${2:-}; shift ;;
    --seconds) seconds=${2:-}; shift ;;
    --again) again=true ;;
    --host) host=true ;;
    -h | --help) usage; exit 0 ;;
    *) usage >&2; exit 2 ;;
  esac
  shift || fail "the last option needs a value"
done
[[ $phase =~ ^(build|ops|train)$ || ( $report_only == true && -z $phase ) ]] || fail "--phase is build, ops or train"
[[ $seconds =~ ^[1-9][0-9]*$ ]] || fail "--seconds is '$seconds'; it must be a positive number"
if [[ -n $out ]]; then out=$(realpath -m "$out"); fi
if [[ -n $build ]]; then build=$(realpath -m "$build"); fi
if [[ -n $deps ]]; then deps=$(realpath -m "$deps"); fi
cd "$(dirname "$0")/.."
root=$(pwd)
out=${out:-$root/build/gpu} build=${build:-$root/build/release} deps=${deps:-$root/build/deps}
readonly root out build deps phase again host seconds
readonly python=${PYTHON:-python3} results=$out/results.jsonl
readonly report=(scripts/compare/gpu_report.py)
command -v "$python" >/dev/null || fail "$python is not found; set PYTHON"
mkdir -p "$out"
if [[ -d $deps/bin ]]; then export PATH=$deps/bin:$PATH; fi
if ! command -v nvcc >/dev/null && [[ -x /usr/local/cuda/bin/nvcc ]]; then export PATH=/usr/local/cuda/bin:$PATH; fi

if $host; then
  readonly kind=test library=$build/app/libtitan_cuda_on_host.so
  readonly targets=(titan titan_cuda_on_host_module cuda_op_test cuda_movement_test cuda_gemm_test cuda_backend_test app_test)
  export TITAN_CUDA_LIBRARY=$library
else
  readonly kind=device_test library=$build/app/libtitan_cuda.so
  readonly targets=(titan titan_cuda_module titan_cuda_device_tests app_test)
fi

has_gpu() { [[ $(nvidia-smi -L 2>/dev/null) == GPU* ]]; }
# What results are of: they do not count for another build.
build_id() {
  if [[ -e $library ]]; then cat "$build/app/titan" "$library" | sha256sum | cut -c 1-12; else echo none; fi
}

# step NAME LIMIT COMMAND...: runs it for at most LIMIT seconds, unless it is done, and notes what came of it: its exit
# status (77: cannot run here), and what it prints if that is JSON.
step() {
  local name=$1 limit=$2 status=0 begin=$SECONDS
  shift 2
  local left=$((seconds - begin)) id=(--results "$results" --phase "$phase" --step "$name" --build "$(build_id)")
  if [[ $phase != build && $again == false ]] && "$python" "${report[@]}" is_done "${id[@]}"; then
    echo "== $name: done before"
    return
  fi
  if ((left < 5)); then
    "$python" "${report[@]}" add "${id[@]}" --status 75 --seconds 0
    return
  fi
  echo "== $name"
  timeout -k 10 $((limit < left ? limit : left)) "$@" >"$scratch/out" 2>"$scratch/err" </dev/null || status=$?
  { printf '\n== %s: exit status %d after %d s: %s\n' "$name" "$status" $((SECONDS - begin)) "$*"
    cat "$scratch/out" "$scratch/err"; } >>"$out/$phase.log"
  "$python" "${report[@]}" add "${id[@]}" --status "$status" --seconds $((SECONDS - begin)) --out "$scratch/out" --err "$scratch/err"
}

# The GPU, its clocks as they are and at most, the driver and the toolkit.
note_machine() {
  local text="no GPU: CUDA on the host" fields=name,memory.total,driver_version,clocks.sm,clocks.max.sm,clocks.mem,power.limit
  if ! $host && has_gpu; then text=$(nvidia-smi --query-gpu=$fields --format=csv,noheader | head -n 1); fi
  "$python" "${report[@]}" machine --results "$results" --text "$text" --fields "$fields" \
    --cuda "$(nvcc --version 2>/dev/null | sed -n 's/.*release \([0-9.]*\).*/\1/p')"
}

phase_build() {
  local options=(-DTITAN_CUDA_FOR=native -DTITAN_TESTS=ON)
  if ! $host; then options+=(-DTITAN_CUDA=ON); fi
  if [[ -d $deps/usr ]]; then options+=("-DTITAN_DEPS=$deps"); fi
  # On the host a build that is there is taken as it is.
  if ! $host || [[ ! -e $build/CMakeCache.txt ]]; then
    step configure 120 cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release "${options[@]}"
  fi
  step compile 450 cmake --build "$build" --target "${targets[@]}"
}

tests() { echo "$build/tests/kernels/cuda/$1_$kind"; }

# Kernels with shared memory and barriers, without those of cuBLAS.
readonly own_kernels=attention,attention_grad,embedding_grad,logit_stats,cross_entropy_grad,rms_norm,rms_norm_grad,quantize,fused_amax,square_sum,adamw

# A model for the host: heads of 64 take the tensor cores' attention.
readonly tiny_model=(--model.flavor=custom --model.dim=64 --model.n_layers=1 --model.n_heads=2 --model.n_kv_heads=1
  --model.head_dim=64 --model.ffn_dim=128 --model.vocab_size=272 --training.seq_len=64 --training.local_batch_size=1)

phase_ops() {
  local ops=() backend=() gemms=() app=("[cuda]") rows=$own_kernels tiny=() count=3
  local ops_of=("$build/app/titan" bench ops)
  if $host; then
    ops=("copy,cast,amax") backend=("on CUDA allocated*") gemms=("equal products*") app=("the doctor says why*") rows=fill count=1
    tiny=("${tiny_model[@]}")
  fi
  step "tests of operations" 150 "$(tests ops/cuda_op)" "${ops[@]}"
  step "tests of attention on Hopper's kernels" 60 env TITAN_CUDA_ATTENTION=hopper "$(tests ops/cuda_op)" attention,attention_grad
  step "tests of movement" 30 "$(tests ops/cuda_movement)"
  step "tests of matrix products" 60 "$(tests gemm/cuda_gemm)" "${gemms[@]}"
  step "tests of the backend and of training" 120 "$(tests backend/cuda_backend)" "${backend[@]}"
  step "tests of the executable" 90 env "TITAN_TEST_CUDA_LIBRARY=$library" "$build/tests/app/titan/app_test" "${app[@]}"
  step "operations of 8B, bf16" 90 "${ops_of[@]}" configs/llama3_8b_gpu.toml --debug.device=cuda "${tiny[@]}" --steps "$count" --json
  step "operations of 8B, float8" 90 "${ops_of[@]}" configs/llama3_8b_gpu.toml --debug.device=cuda "${tiny[@]}" --steps "$count" --json \
    '--model.converters=["float8"]'
  step "operations of 1B, bf16" 60 "${ops_of[@]}" configs/llama3_1b_gpu.toml --debug.device=cuda "${tiny[@]}" --steps "$count" --json
  local tool
  for tool in memcheck racecheck initcheck synccheck; do
    if command -v compute-sanitizer >/dev/null; then
      step "compute-sanitizer $tool" 100 compute-sanitizer --tool "$tool" --error-exitcode 9 "$(tests ops/cuda_op)" "$rows"
    else
      step "compute-sanitizer $tool" 5 bash -c 'echo "compute-sanitizer is not installed" >&2; exit 77'
    fi
  done
}

phase_train() {
  local shape more=()
  if $host; then more=(--steps 1 --warmup 1 --torch-device cpu -- "${tiny_model[@]}"); fi
  for shape in 1B 8B; do
    step "train $shape" 300 "$python" scripts/compare/gpu_training.py "$shape" --titan "$build/app/titan" --python "$python" \
      --seconds $((seconds / 2 - 20)) "${more[@]}"
  done
}

if ! $host && ! has_gpu; then
  if [[ $phase == build ]]; then
    echo "There is no GPU here (nvidia-smi lists none): building for sm_80" >&2
  elif ! $report_only; then
    fail "there is no GPU here: nvidia-smi lists none. --host runs the same steps on the host; --phase build builds"
  fi
fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
if ! $report_only; then
  note_machine
  rm -f "$out/$phase.log"
  case $phase in
    build) phase_build ;;
    ops) phase_ops ;;
    train) phase_train ;;
  esac
fi
status=0 id=()
if ! $report_only; then id=(--build "$(build_id)"); fi
"$python" "${report[@]}" table --results "$results" --phase "${phase:-all}" "${id[@]}" >"$out/report.md" || status=1
cat "$out/report.md"
exit $status
