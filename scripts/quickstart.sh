#!/usr/bin/env bash
# From a fresh Debian machine to a small Llama that writes: installs, builds, trains for about five minutes on
# two cores, saves, resumes, generates.
#
#   scripts/quickstart.sh           trains on the GNU dictionary of English (Debian package dict-gcide)
#   scripts/quickstart.sh FILE      trains on your own text: .txt, .jsonl, also .gz and .zst
#
# Each call trains a new model, in outputs/quickstart/run-N. Build, corpus and tokens are reused.
# Environment: TITAN_QUICKSTART_STEPS trains so many steps, TITAN_QUICKSTART_OUTPUTS is another folder than
# outputs/quickstart, TITAN an executable to use instead of building one.
set -euo pipefail

usage() { sed -n '2,/^set/s/^# \{0,1\}//p' "$0"; }
say() { printf '\n== %s\n' "$*"; }
fail() { echo "quickstart: $*" >&2; exit 1; }

case "${1:-}" in
  -h | --help) usage; exit 0 ;;
  -*) usage >&2; exit 2 ;;
esac
(($# <= 1)) || { usage >&2; exit 2; }
text=""
if (($# == 1)); then
  [[ -r $1 ]] || fail "$1: no such file, or not readable"
  text=$(realpath "$1")
fi

cd "$(dirname "$0")/.."
readonly outputs=${TITAN_QUICKSTART_OUTPUTS:-outputs/quickstart}
readonly recipe=configs/llama3_quickstart.toml
readonly more_steps=20
steps=${TITAN_QUICKSTART_STEPS:-$(sed -n 's/^steps = //p' "$recipe" | head -n 1)}
[[ $steps =~ ^[1-9][0-9]*$ ]] || fail "TITAN_QUICKSTART_STEPS is '$steps'; it must be a positive number"

build_titan() {
  say "1. Install and build"
  scripts/install_deps.sh
  cmake --preset release -DTITAN_TESTS=OFF -DTITAN_CUDA_FOR=native
  cmake --build --preset release --target titan
}

# The package is unpacked, not installed: it would bring a dictionary server along.
fetch_dictionary() {
  local folder=$1
  if [[ -r /usr/share/dictd/gcide.dict.dz ]]; then
    cp /usr/share/dictd/gcide.dict.dz "$folder/"
    return
  fi
  command -v apt-get >/dev/null || fail "the corpus comes by apt-get; without it, name your own text file"
  (cd "$folder" && apt-get download -q dict-gcide && dpkg-deb --fsys-tarfile dict-gcide_*.deb |
    tar -x --strip-components=4 ./usr/share/dictd/gcide.dict.dz) ||
    fail "cannot download dict-gcide (is the network up, and 'apt-get update' done?); or name your own text file"
}

make_corpus() {
  local corpus=$1 folder
  folder=$(dirname "$corpus")
  mkdir -p "$folder"
  fetch_dictionary "$folder"
  zcat < "$folder/gcide.dict.dz" | LC_ALL=C awk -v RS= -f scripts/gcide_prose.awk > "$corpus.part"
  mv "$corpus.part" "$corpus"
}

validation_losses() { sed -n 's/.*"kind":"validation".*"loss":\([0-9.]*\).*/\1/p' "$1"; }

titan=${TITAN:-}
if [[ -z $titan ]]; then
  build_titan
  titan=build/release/app/titan
fi
[[ -x $titan ]] || fail "$titan is not an executable"

say "2. Text to learn from"
if [[ -z $text ]]; then
  text=$outputs/corpus/gcide.txt
  [[ -r $text ]] || make_corpus "$text"
fi
ls -lh "$text"

number=1
while [[ -e $outputs/run-$number ]]; do number=$((number + 1)); done
readonly run=$outputs/run-$number
mkdir -p "$run"
overrides=(--job.dump_folder="$run" --training.dataset_path="$text" --training.data_cache="$outputs/tokens")

say "3. Train for $steps steps, in $run"
"$titan" train "$recipe" "${overrides[@]}" --training.steps="$steps"
initial=$(validation_losses "$run/metrics.jsonl" | head -n 1)
final=$(validation_losses "$run/metrics.jsonl" | tail -n 1)
echo "validation loss: $initial after the first step, $final after step $steps"
awk -v a="$initial" -v b="$final" 'BEGIN { exit !(b < 0.9 * a) }' || fail "the validation loss did not clearly fall"

say "4. Saved"
"$titan" checkpoint list "$run/checkpoint"

say "5. Resume for $more_steps steps"
"$titan" train "$recipe" "${overrides[@]}" --training.steps=$((steps + more_steps))
"$titan" checkpoint list "$run/checkpoint"

say "6. Generate"
"$titan" generate "$run/checkpoint" --prompt "The" --max-new-tokens 120 --temperature 0.8 --top-k 40 --seed 1

say "Done. Where things are"
cat <<END
model         $run/checkpoint (titan generate, titan eval, titan checkpoint inspect)
metrics       $run/metrics.jsonl, one JSON object a line
TensorBoard   $run/tb (tensorboard --logdir $run/tb)
END
