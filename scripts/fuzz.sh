#!/usr/bin/env bash
# Fuzzes the parsers of outside bytes: tests/fuzz, with libFuzzer, AddressSanitizer and UndefinedBehaviorSanitizer.
# Ends with a table. Exit status: 0 nothing found, 1 something; its input stays in build/fuzz/runs/TARGET/findings.
#
#   scripts/fuzz.sh                              every target for 10 minutes of processor time
#   scripts/fuzz.sh --minutes 1 recipe gzip      these, for a minute each
#   scripts/fuzz.sh --minimize [TARGET...]       puts the inputs that reach most new code into tests/fuzz/corpus, up to 12
#                                                a target; fuzzes nothing
#
# What a run found out stays in build/fuzz/runs/TARGET/corpus, and the next goes on from there.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly seeds=tests/fuzz/corpus runs=build/fuzz/runs bin=build/fuzz/tests/fuzz
readonly kept_inputs=12 kept_bytes=2048  # of what a target found: so many, each of at most so many bytes

usage() { sed -n '2,/^set/s/^# \{0,1\}//p' "$0"; }

# Processor seconds that process $1 has used; 0 once it has ended.
cpu_seconds() {
  local fields=()
  read -r -a fields < <(sed 's/.*) //' "/proc/$1/stat" 2>/dev/null) || true
  echo $(((${fields[11]:-0} + ${fields[12]:-0}) / $(getconf CLK_TCK)))
}

# The largest single allocation in MiB. A zstd frame may ask for a window of 2 GiB, which is not touched before it fills.
malloc_limit() { if [[ $1 == zstd ]]; then echo 2300; else echo 256; fi; }

# fuzz TARGET SECONDS: its log is in $runs/TARGET.
fuzz() {
  local target=$1 seconds=$2 pid
  mkdir -p "$runs/$target/corpus" "$runs/$target/findings"
  TMPDIR=$scratch "$bin/fuzz_$target" "$runs/$target/corpus" "$seeds/$target" \
    -timeout=60 -report_slow_units=60 -rss_limit_mb=2048 -malloc_limit_mb="$(malloc_limit "$target")" -print_final_stats=1 \
    -artifact_prefix="$runs/$target/findings/" >"$runs/$target/log" 2>&1 &
  pid=$!
  while kill -0 "$pid" 2>/dev/null; do
    sleep 1
    if (($(cpu_seconds "$pid") >= seconds)); then kill -USR1 "$pid" 2>/dev/null || true; fi
  done
  wait "$pid" || true
}

# chosen CONTROL: of a merge's inputs those that reach most code beyond the seeds and beyond the inputs before them. CONTROL
# is libFuzzer's: the number of inputs, of seeds, the names, and of each "STARTED number bytes" and "FT number feature...",
# the features that no input before it has.
chosen() {
  awk -v most_bytes="$kept_bytes" '
    NR == 1 { inputs = $1; next }
    NR == 2 { seeds = $1; next }
    NR <= inputs + 2 { name[NR - 3] = $0; next }
    $1 == "STARTED" { bytes[$2] = $3 }
    $1 == "FT" && NF > 2 && $2 >= seeds && bytes[$2] <= most_bytes { print NF - 2, name[$2] }' "$1" |
    sort -rn -s -k1,1 | cut -d' ' -f2- | sed "${kept_inputs}q"
}

# minimize TARGET: adds to its committed corpus.
minimize() {
  local target=$1 merged=$runs/$1/merged control=$PWD/$runs/$1/merge.control file
  rm -rf "$merged" "$control"
  cp -r "$seeds/$target" "$merged"
  mkdir -p "$runs/$target/corpus"
  TMPDIR=$scratch "$bin/fuzz_$target" -merge=1 -merge_control_file="$control" -use_counters=0 "$merged" \
    "$runs/$target/corpus" 2>"$runs/$target/merge.log"
  while read -r file; do cp "$file" "$seeds/$target/"; done < <(chosen "$control")
  echo "$target: $(find "$seeds/$target" -type f | wc -l) inputs, $(cat "$seeds/$target"/* | wc -c) bytes"
}

statistic() { sed -n "s/^stat::$2: *//p" "$runs/$1/log"; }

minutes=10
only_minimize=false
targets=()
while (($#)); do
  case $1 in
    --minutes) minutes=${2:?--minutes needs a number}; shift ;;
    --minimize) only_minimize=true ;;
    -h | --help) usage; exit 0 ;;
    -*) usage >&2; exit 2 ;;
    *) targets+=("$1") ;;
  esac
  shift
done
if ((${#targets[@]} == 0)); then mapfile -t targets < <(ls "$seeds"); fi
for target in "${targets[@]}"; do
  if [[ ! -d $seeds/$target ]]; then
    echo "$target: no such target; they are: $(ls -m "$seeds")" >&2
    exit 2
  fi
done

scripts/install_deps.sh fuzz
cmake --preset fuzz
cmake --build --preset fuzz --target "${targets[@]/#/fuzz_}"
scratch=$(mktemp -d "$(if [[ -w /dev/shm ]]; then echo /dev/shm; else echo "${TMPDIR:-/tmp}"; fi)/titan-fuzz-XXXXXX")
trap 'rm -rf "$scratch"' EXIT

if $only_minimize; then
  for target in "${targets[@]}"; do minimize "$target"; done
  exit 0
fi
for target in "${targets[@]}"; do
  echo "Fuzzing $target"
  fuzz "$target" $((minutes * 60))
done

printf '\n%-20s %12s %9s  %s\n' target runs inputs findings
status=0
for target in "${targets[@]}"; do
  findings=$(find "$runs/$target/findings" -type f | wc -l)
  printf '%-20s %12s %9s  %s\n' "$target" "$(statistic "$target" number_of_executed_units)" \
    "$(find "$runs/$target/corpus" -type f | wc -l)" "$findings"
  if ((findings > 0)); then
    status=1
    find "$runs/$target/findings" -type f -printf '  %p\n'
  fi
done
exit $status
