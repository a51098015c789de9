#!/usr/bin/env bash
# A bundle of one library and one command is unpacked so that both are found where they are.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# package NAME FOLDER: of the files in $folder/NAME
package() {
  mkdir -p "$folder/$1/DEBIAN" "$folder/bundle/$2"
  printf 'Package: %s\nVersion: 1\nArchitecture: all\nMaintainer: none <none@example.org>\nDescription: none\n' "$1" > "$folder/$1/DEBIAN/control"
  dpkg-deb --root-owner-group -b "$folder/$1" "$folder/bundle/$2/$1.deb" > /dev/null
}

fails() {
  if "$@" > "$folder/log" 2>&1; then echo "no error: $*"; exit 1; fi
}

fails scripts/install_deps.sh --bundle "$folder/none" "$folder/deps"
grep -q 'holds no bundle; scripts/bundle_deps.sh' "$folder/log"
mkdir -p "$folder/other"
touch "$folder/other/file"
fails scripts/bundle_deps.sh "$folder/other"
grep -q 'holds other files' "$folder/log"
fails scripts/bundle_deps.sh --nonsense

lib=libone/usr/lib/x86_64-linux-gnu
mkdir -p "$folder/libone/lib/x86_64-linux-gnu" "$folder/$lib/pkgconfig"
echo one > "$folder/libone/lib/x86_64-linux-gnu/libone.so.1"
ln -s /lib/x86_64-linux-gnu/libone.so.1 "$folder/$lib/libone.so"
# shellcheck disable=SC2016
printf 'prefix=/usr\nlibdir=${prefix}/lib\n' > "$folder/$lib/pkgconfig/one.pc"
package libone libs
mkdir -p "$folder/tool/usr/bin" "$folder/tool/usr/lib/x86_64-linux-gnu"
# shellcheck disable=SC2016
printf '#!/bin/sh\necho "$LD_LIBRARY_PATH $*"\n' > "$folder/tool/usr/bin/ninja"
chmod +x "$folder/tool/usr/bin/ninja"
cp "$folder/tool/usr/bin/ninja" "$folder/tool/usr/bin/pkgconf"
package tool tools

# A machine without these commands.
mkdir "$folder/bin"
for command in bash chmod cp dirname dpkg-deb find g++ head ln ls mkdir paste readlink realpath rm sed sort tar; do
  ln -s "$(command -v "$command")" "$folder/bin/$command"
done
PATH=$folder/bin scripts/install_deps.sh --bundle "$folder/bundle" "$folder/deps" > "$folder/log"
grep -q '1 libraries unpacked in .*: cmake, ctest, ninja, pkg-config, pkgconf' "$folder/log"
[[ $(cat "$folder/deps/usr/lib/x86_64-linux-gnu/libone.so") == one ]]
grep -q "^prefix=$folder/deps/usr$" "$folder/deps/usr/lib/x86_64-linux-gnu/pkgconfig/one.pc"
[[ $("$folder/deps/bin/ninja" -v) == *deps/tools/usr/lib/x86_64-linux-gnu:*deps/usr/lib/x86_64-linux-gnu" -v" ]]
[[ $("$folder/deps/bin/pkg-config" x) == *" x" ]]
