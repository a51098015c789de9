#!/usr/bin/env bash
# check_layers names an include that points up, one that is not declared, and none else.
set -euo pipefail

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
mkdir -p "$root"/{kernels/op,engine/{data,metrics},parallelism,app}
echo 'titan_library(titan_op SOURCES op.cc)' > "$root/kernels/op/CMakeLists.txt"
echo 'titan_library(titan_metrics SOURCES log.cc DEPENDS titan_op)' > "$root/engine/metrics/CMakeLists.txt"
echo 'titan_library(titan_data SOURCES data.cc DEPENDS titan_op)' > "$root/engine/data/CMakeLists.txt"
echo '#include "kernels/op/op.h"' | tee "$root/engine/data/data.cc" "$root/engine/metrics/log.cc" > "$root/kernels/op/op.cc"
scripts/check_layers "$root"

echo '#include "engine/metrics/log.h"' | tee -a "$root/engine/data/data.cc" "$root/kernels/op/op.cc" > /dev/null
if found=$(scripts/check_layers "$root"); then
  echo "two violations were not found"
  exit 1
fi
diff - <(echo "$found") << 'END'
kernels/op/op.cc:2: kernels may not include engine/metrics/log.h
engine/data/data.cc:2: engine/data does not depend on engine/metrics (engine/metrics/log.h)
END
