#!/usr/bin/env bash
# Builds the fuzz targets and runs each for a while, from the inputs in
# tests/fuzz/corpus. An input that makes one fail is left in FOLDER.
#
#   tests/fuzz/run.sh [SECONDS_EACH] [FOLDER]     default: 5 build/fuzz/findings
set -euo pipefail
cd "$(dirname "$0")/../.."
source deploy/packages.sh

readonly SECONDS_EACH=${1:-5}
if [[ ! $SECONDS_EACH =~ ^[1-9][0-9]*$ ]]; then
  sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0" >&2
  exit 2
fi
readonly OUT=${2:-build/fuzz/findings}

install_packages "${GIMBAL_BUILD_PACKAGES[@]}" "${GIMBAL_FUZZ_PACKAGES[@]}"
cmake --preset fuzz >/dev/null
cmake --build --preset fuzz
for target in config link manifest safetensors; do
  mkdir -p "$OUT/$target"
  printf '== %s: %s s\n' "$target" "$SECONDS_EACH"
  build/fuzz/bin/${target}_fuzz -max_total_time="$SECONDS_EACH" -max_len=65536 \
    -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 -verbosity=0 \
    -artifact_prefix="$OUT/$target-" "$OUT/$target" "tests/fuzz/corpus/$target" \
    2>&1 | grep -v '^$'
done
echo "no finding"
