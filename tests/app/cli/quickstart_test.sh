#!/usr/bin/env bash
# The quickstart trains, saves, resumes and generates, here on this project's own sources, beside an earlier run.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
find engine kernels -name '*.cc' -exec cat {} + > "$folder/sources.txt"
mkdir -p "$folder/out/run-1"
export TITAN_QUICKSTART_STEPS=30 TITAN_QUICKSTART_OUTPUTS="$folder/out"
scripts/quickstart.sh "$folder/sources.txt" > "$folder/log" 2>&1 || { cat "$folder/log"; exit 1; }

expect() { grep -q "$1" "$folder/log" || { cat "$folder/log"; echo "the log does not say: $1"; exit 1; }; }
expect 'validation loss: [0-9.]* after the first step'
expect 'Training starts at step 31'
expect 'step: 50 '
expect '^ *50  complete'
test -s "$folder/out/run-2/metrics.jsonl"
ls "$folder"/out/run-2/tb/*/events.out.tfevents.* > /dev/null

if scripts/quickstart.sh "$folder/none.txt" 2> "$folder/error"; then exit 1; fi
grep -q 'none.txt: no such file' "$folder/error"
