#!/usr/bin/env bash
# Names the C++ sources that clang-format would change. --fix changes them.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! command -v clang-format >/dev/null; then
  echo "format: clang-format is not installed, not checked"
  exit 0
fi
mode=(--dry-run --Werror)
if [[ ${1:-} == --fix ]]; then mode=(-i); fi
find app engine kernels parallelism tests \( -name '*.cc' -o -name '*.h' -o -name '*.cu' \) -print0 |
  xargs -0 clang-format "${mode[@]}"
echo "format: checked"
