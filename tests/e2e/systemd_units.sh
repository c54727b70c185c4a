#!/usr/bin/env bash
# Whether systemd takes the units, and whether the programs have every flag that
# they name. GIMBAL_BIN_DIR has the programs.
set -euo pipefail
cd "$(dirname "$0")/../../deploy/systemd"

if ! command -v systemd-analyze >/dev/null; then
  echo "skipped: no systemd-analyze"
  exit 77
fi
units=$(mktemp -d)
trap 'rm -rf "$units"' EXIT
for unit in *.service; do
  sed "s#/usr/bin/gimbal#$GIMBAL_BIN_DIR/gimbal#" "$unit" \
    >"$units/${unit/@/@0}"
done
systemd-analyze verify "$units"/*.service

for program in coordinator worker; do
  help=$("$GIMBAL_BIN_DIR/gimbal-$program" --help)
  for flag in $(grep -ho -- ' --[a-z-]*' gimbal-"$program"*.service); do
    if ! grep -q -- "$flag " <<<"$help"; then
      echo "gimbal-$program has no $flag" >&2
      exit 1
    fi
  done
done
