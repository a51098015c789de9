#!/usr/bin/env bash
# gpu_check runs all its steps on the host's CUDA, goes on where it ended, and says what failed. Stand-ins take the place of
# nvidia-smi, compute-sanitizer and torch.
set -euo pipefail

build=$(dirname "$(dirname "$TITAN")")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/bin"
export PATH=$folder/bin:$PATH

stand_in() { cat > "$folder/bin/$1"; chmod +x "$folder/bin/$1"; }
stand_in nvidia-smi << 'END'
#!/bin/sh
[ -n "$STAND_IN_GPU" ] || exit 9
case "$*" in
  -L) echo "GPU 0: Stand-in (UUID: none)" ;;
  *memory.used*) echo 1000 ;;
  *) echo "Stand-in, 143771 MiB, 580.1, 345 MHz, 1980 MHz, 3201 MHz, 700.00 W" ;;
esac
END
stand_in compute-sanitizer << 'END'
#!/bin/sh
case "$*" in *racecheck*) [ -z "$STAND_IN_RACE" ] || { echo "a race" >&2; exit 9; } ;; esac
shift 4
exec "$@"
END
stand_in python_with_torch << 'END'
#!/bin/sh
case "$*" in
  *"import torch"*) exit 0 ;;
  *bf16-weights*) echo "CUDA out of memory" >&2; exit 1 ;;
  *torch_llama.py*) echo '{"tokens": 64, "seconds": [9.0, 2.0]}' ;;
  *) exec python3 "$@" ;;
esac
END

fail() { echo "$*"; cat "$folder/log" "$folder"/out/*.log; exit 1; }
# check STATUS OPTION...: its output is in $folder/log.
check() {
  local wanted=$1 status=0
  shift
  scripts/gpu_check.sh --build "$build" --out "$folder/out" --deps "$folder/none" "$@" > "$folder/log" 2>&1 || status=$?
  ((status == wanted)) || fail "gpu_check $*: exit status $status instead of $wanted"
}
expect() { grep -qE "$1" "$folder/log" || fail "the output does not say: $1"; }
refuse() { if grep -qE "$1" "$folder/log"; then fail "the output says: $1"; fi; }

check 2 --phase
check 2 --phase bench
check 2 --phase ops --seconds 0
check 2 --nonsense
check 2 --phase ops
expect 'there is no GPU here'
check 0 --report
expect 'No results yet'

check 0 --phase build --host
expect '\| build \| compile \| ok'

STAND_IN_RACE=1 check 1 --phase ops --host
expect 'no GPU: CUDA on the host'
expect '\| ops \| tests of operations \| ok .*All tests passed'
expect '\| ops \| compute-sanitizer racecheck \| failed \(9\) .*a race'
expect '\| ops \| compute-sanitizer synccheck \| ok'
expect 'Operations of 8B, float8, on CUDA on the host: .* of 8-bit products'
# shellcheck disable=SC2016
expect '\| `attention` \|'
check 0 --phase ops --host
expect '== tests of operations: done before'
expect '^== compute-sanitizer racecheck$'

STAND_IN_GPU=1 PYTHON=python_with_torch check 0 --phase train --host
expect '\| 8B \| titan, float8 \| [0-9.]+ ms .* MiB|GiB'
expect '\| 1B \| PyTorch compiled, bf16 autocast \| 2000.0 ms \| 2000.0 \| 2000.0 \| 32 '
expect '\| 8B \| PyTorch compiled, bf16 weights and moments \| CUDA out of memory'
check 0 --report
expect '\| ops \| tests of operations'
expect '\| train \| train 1B \| ok'

STAND_IN_GPU=1 check 1 --phase ops --again --seconds 1
expect 'Machine: name Stand-in, .*clocks max sm 1980 MHz'
expect 'tests of operations \| did not fit into the time'
refuse '== tests of operations'
