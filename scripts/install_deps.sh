#!/usr/bin/env bash
# Installs the Debian packages that titan needs and this machine lacks. Installs nothing else.
#
#   scripts/install_deps.sh          what the executable needs
#   scripts/install_deps.sh test     and what the tests and checks need
#   scripts/install_deps.sh fuzz     and what scripts/fuzz.sh needs
set -euo pipefail

packages=(
  g++ cmake ninja-build pkg-config
  libdnnl-dev            # oneDNN: GEMMs
  libcli11-dev           # command line
  libtomlplusplus-dev    # recipes
  nlohmann-json3-dev     # checkpoints' and tokenizers' JSON
  libspdlog-dev libfmt-dev  # log
  libpcre2-dev           # pre-tokenizer patterns
  zlib1g-dev libzstd-dev # compressed text
  libxxhash-dev          # content hashes
)
case "${1:-}" in
  "") ;;
  test) packages+=(catch2 ccache clang-format python3 shellcheck) ;;
  fuzz) packages+=(catch2 clang libclang-rt-14-dev) ;;
  *) sed -n '2,/^set/s/^# \{0,1\}//p' "$0"; exit 2 ;;
esac

installed() { [[ $(dpkg-query --show --showformat='${db:Status-Status}' "$1" 2>/dev/null) == installed ]]; }

missing=()
if command -v dpkg-query >/dev/null; then
  for package in "${packages[@]}"; do
    installed "$package" || missing+=("$package")
  done
else
  missing=("${packages[@]}")
fi
if ((${#missing[@]} == 0)); then
  echo "Packages: all ${#packages[@]} are installed"
  exit 0
fi

echo "Packages to install: ${missing[*]}"
if ! command -v apt-get >/dev/null; then
  echo "There is no apt-get here: install what these Debian packages hold, then build with CMake" >&2
  exit 1
fi
as_root=()
if ((EUID != 0)); then
  if ! command -v sudo >/dev/null; then
    echo "Installing needs root, and there is no sudo: run as root: apt-get install ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi
"${as_root[@]}" apt-get update -q
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "${missing[@]}"
