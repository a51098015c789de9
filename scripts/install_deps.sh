#!/usr/bin/env bash
# Installs the Debian packages that titan needs and this machine lacks. Installs nothing else.
#
#   scripts/install_deps.sh          what the executable needs
#   scripts/install_deps.sh test     and what the tests and checks need
#   scripts/install_deps.sh fuzz     and what scripts/fuzz.sh needs
#
#   scripts/install_deps.sh --bundle DIR [PREFIX]
#
# Without network and without root: unpacks what scripts/bundle_deps.sh has put into DIR, into PREFIX (build/deps unless
# named). Then: export PATH=PREFIX/bin:$PATH; cmake --preset release -DTITAN_DEPS=PREFIX. Installs nothing.
set -euo pipefail

fail() { echo "install_deps: $*" >&2; exit 1; }

# at_least VERSION LEAST
at_least() { [[ $(printf '%s\n' "$2" "$1" | sort -V | head -n 1) == "$2" ]]; }

# unpack PREFIX PACKAGE...: one tree below PREFIX/usr, whose links stay inside.
unpack() {
  local prefix=$1 package link to
  shift
  mkdir -p "$prefix"
  for package in "$@"; do
    dpkg-deb -x "$package" "$prefix" || fail "cannot unpack $package: carry the bundle again"
  done
  if [[ -d $prefix/lib ]]; then
    cp -a "$prefix/lib/." "$prefix/usr/lib/"
    rm -rf "${prefix:?}/lib"
  fi
  while read -r link; do
    to=$(readlink "$link")
    ln -sfn "$(realpath -m --relative-to="${link%/*}" "$prefix/usr/${to#"${to%%lib/*}"}")" "$link"
  done < <(find "$prefix/usr/lib" -type l -lname '/*')
  find "$prefix/usr" -name '*.pc' -exec sed -i "s|^prefix=.*|prefix=$prefix/usr|" {} +
}

# provide COMMAND PREFIX: a command of the bundle, in PREFIX/bin, with the bundle's libraries.
provide() {
  local folders
  folders=$(find "$2/tools/usr/lib" "$2/usr/lib" -maxdepth 1 -name '*-linux-gnu' | paste -sd :)
  mkdir -p "$2/bin"
  printf '#!/bin/sh\nLD_LIBRARY_PATH=%s exec %s "$@"\n' "$folders" "$2/tools/usr/bin/$1" > "$2/bin/$1"
  chmod +x "$2/bin/$1"
}

install_bundle() {
  local bundle=$1 prefix=$2 compiler cmake="" libs=() tools=()
  shopt -s nullglob
  libs=("$bundle"/libs/*.deb) tools=("$bundle"/tools/*.deb)
  ((${#libs[@]} > 0)) || fail "$bundle holds no bundle; scripts/bundle_deps.sh makes one"
  command -v dpkg-deb >/dev/null || fail "unpacking needs dpkg-deb, and this machine has none"
  compiler=$(${CXX:-g++} -dumpfullversion 2>/dev/null) || fail "there is no g++, and the bundle holds none"
  at_least "$compiler" 12 || fail "g++ is $compiler; 12 or newer is needed"
  rm -rf "$prefix"
  unpack "$prefix" "${libs[@]}"
  if command -v cmake >/dev/null; then cmake=$(cmake --version | sed -n '1s/.* //p'); fi
  unpack "$prefix/tools" "${tools[@]}"
  if [[ -z $cmake ]] || ! at_least "$cmake" 3.24; then provide cmake "$prefix"; provide ctest "$prefix"; fi
  command -v ninja >/dev/null || provide ninja "$prefix"
  command -v pkg-config >/dev/null || { provide pkgconf "$prefix"; ln -sf pkgconf "$prefix/bin/pkg-config"; }
  echo "Packages: ${#libs[@]} libraries unpacked in $prefix; from the bundle's tools: $(cd "$prefix" && ls -m bin 2>/dev/null || echo none)"
}

if [[ ${1:-} == --bundle ]]; then
  (($# == 2 || $# == 3)) || { sed -n '2,/^set/s/^# \{0,1\}//p' "$0"; exit 2; }
  install_bundle "$2" "$(realpath -m "${3:-$(dirname "$0")/../build/deps}")"
  exit 0
fi

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
