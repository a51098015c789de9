#!/usr/bin/env bash
# Writes the tables of docs/recipes.md as `titan train --help-markdown` prints them. --check only compares.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly titan=${TITAN:-build/release/app/titan}
readonly page=docs/recipes.md
readonly marker='<!-- Everything below is written by scripts/update_recipe_reference.sh -->'

updated=$(sed "\#^$marker\$#q" "$page" && echo && "$titan" train --help-markdown)
if [[ ${1:-} == --check ]]; then
  diff "$page" - <<< "$updated" || {
    echo "$page is not what titan says: run scripts/update_recipe_reference.sh"
    exit 1
  }
else
  echo "$updated" > "$page"
fi
