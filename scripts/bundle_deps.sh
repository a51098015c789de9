#!/usr/bin/env bash
# Puts what a machine without network needs to build titan into a folder, to be carried there: Debian packages, as
# they come from the archive. scripts/install_deps.sh --bundle DIR unpacks them there, without root.
#
#   scripts/bundle_deps.sh [DIR]     DIR is build/bundle unless named; what it holds is replaced
#
# libs/ holds the libraries titan is built with and Catch2; tools/ CMake, Ninja and pkg-config, for a machine that lacks
# them. Assumed there: g++ 12 or newer, dpkg-deb and what every Debian has, and for GPUs the CUDA toolkit. Needs apt-get
# and a network here. The packages are for this machine's release of Debian or a newer one.
set -euo pipefail

usage() { sed -n '2,/^set/s/^# \{0,1\}//p' "$0"; }
fail() { echo "bundle_deps: $*" >&2; exit 1; }

case "${1:-}" in
  -h | --help) usage; exit 0 ;;
  -*) usage >&2; exit 2 ;;
esac
(($# <= 1)) || { usage >&2; exit 2; }
target=$(realpath -m "${1:-$(dirname "$0")/../build/bundle}")
readonly target

# From install_deps.sh, without the compiler and the checks' tools.
readonly libs=(libdnnl-dev libcli11-dev libtomlplusplus-dev nlohmann-json3-dev libspdlog-dev libfmt-dev libpcre2-dev
  zlib1g-dev libzstd-dev libxxhash-dev catch2)
readonly tools=(cmake ninja-build pkgconf)
# Parts of the C and C++ toolchains, which stay the machine's own, and what only serves installation.
readonly left_out='^(libc6.*|libc-dev-bin|linux-libc-dev|libcrypt.*|libnsl.*|libtirpc.*|rpcsvc-proto|libgcc-s1|libstdc.*|libgomp1|gcc-.*|libperl.*|.*-perl|perl.*|dpkg|tar|usrmerge|usr-is-merged|procps|init-system-helpers|libproc2-0|libsystemd0|libelogind0|pkg-config)$'

# closure PACKAGE...: these and all they depend on (of "a | b" both), but for what is left out and what only that needs.
closure() {
  local seen=" " queue=("$@") package
  while ((${#queue[@]})); do
    package=${queue[0]}
    queue=("${queue[@]:1}")
    if [[ $seen == *" $package "* || $package =~ $left_out ]]; then continue; fi
    seen+="$package "
    echo "$package"
    mapfile -t -O "${#queue[@]}" queue < <(apt-cache depends --no-recommends --no-suggests --no-conflicts --no-breaks \
      --no-replaces --no-enhances "$package" | sed -n 's/^ [ |]Depends: \([a-z0-9]\)/\1/p')
  done
}

# download FOLDER PACKAGE...
download() {
  local folder=$1 packages=()
  shift
  mapfile -t packages < <(closure "$@")
  ((${#packages[@]} >= $#)) || fail "apt-cache does not know: $*; run: apt-get update"
  mkdir -p "$folder"
  (cd "$folder" && apt-get download -q -o APT::Sandbox::User=root "${packages[@]}" >/dev/null) ||
    fail "cannot download; is the network up, and 'apt-get update' done?"
}

command -v apt-get >/dev/null || fail "there is no apt-get here: make the bundle on a Debian machine"
# Only what an earlier call made.
if [[ -e $target && ! -e $target/libs && -n $(ls -A "$target") ]]; then
  fail "$target holds other files: name an empty or a new folder"
fi
rm -rf "$target/libs" "$target/tools"
download "$target/libs" "${libs[@]}"
download "$target/tools" "${tools[@]}"
# What is in libs/ already need not come twice.
for package in "$target"/libs/*.deb; do rm -f "$target/tools/${package##*/}"; done
echo "$target: $(find "$target" -name '*.deb' | wc -l) packages, $(du -sm "$target" | cut -f 1) MiB"
echo "There: scripts/install_deps.sh --bundle DIR"
