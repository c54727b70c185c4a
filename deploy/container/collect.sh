#!/usr/bin/env bash
# Puts the stripped programs of BIN into OUT/bin, and the names of the packages
# that hold the libraries they are linked with into OUT/packages. For machines
# of the release that the image is made of.
#
#   deploy/container/collect.sh BIN OUT
set -euo pipefail
readonly BIN=$1 OUT=$2

mkdir -p "$OUT/bin"
for file in gimbal gimbal-coordinator gimbal-worker libgimbal_cuda.so; do
  [[ -e $BIN/$file ]] || continue
  install -m 755 -s "$BIN/$file" "$OUT/bin/$file"
done

# The libraries the programs name themselves; those that they need in turn are the
# dependencies of the packages. CUDA's are in the runtime base already.
needed() { objdump -p "$OUT"/bin/* | awk '/NEEDED/ { print $2 }' | sort -u; }
package_of() {
  local path
  path=$(ldconfig -p | awk -v name="$1" '$1 == name { print $NF; exit }')
  [[ -n $path ]] || return 0
  path=$(readlink -f "$path")
  { dpkg-query -S "$path" || dpkg-query -S "${path#/usr}"; } 2>/dev/null |
    head -n 1 | cut -d : -f 1
}
for library in $(needed); do
  package_of "$library" || true
done | sort -u >"$OUT/packages"
