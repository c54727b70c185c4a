#!/usr/bin/env bash
# Training speed of gimbal and of PyTorch (CPU, eager) side by side: the same
# model and step (see step_bench.cc), one thread each, in alternation.
#
#   tests/bench/compare_torch.sh [STEPS]      steps per round, default 5
#
# Packages that the build of the benchmark needs are installed when missing.
# PyTorch is that of $PYTHON or python3 when they have it; otherwise it is
# installed from PyPI into a virtual environment under the user's cache folder.
# Times are processor time of the process, so that other load on the machine
# counts as little as possible.
set -euo pipefail

steps=${1:-5}
rounds=3
root=$(cd "$(dirname "$0")/../.." && pwd)
source "$root/deploy/packages.sh"
build="$root/build/bench"
cache="${XDG_CACHE_HOME:-$HOME/.cache}/gimbal/torch"
export OMP_NUM_THREADS=1

find_torch() {
  for python in "${PYTHON:-}" "$cache/bin/python" python3 /usr/bin/python3; do
    if [ -n "$python" ] && "$python" -c 'import torch' 2>/dev/null; then
      echo "$python"
      return
    fi
  done
  echo "installing torch into $cache" >&2
  install_packages python3-venv >&2
  if python3 -m venv "$cache" >&2 &&
    "$cache/bin/pip" install --quiet torch numpy >&2; then
    echo "$cache/bin/python"
    return
  fi
  echo "no PyTorch: install Debian's python3-torch, or name a Python that has" \
    "it in PYTHON" >&2
  exit 1
}

value() { awk -v key="$1" '$1 == key { print $2 }'; }
median() { sort -n | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }

install_packages "${GIMBAL_BUILD_PACKAGES[@]}" "${GIMBAL_TEST_PACKAGES[@]}"
python=$(find_torch)
cmake -S "$root" -B "$build" --preset release -DGIMBAL_TESTS=ON >/dev/null
cmake --build "$build" --target step_bench >/dev/null

results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT
round=1
while [ "$round" -le "$rounds" ]; do
  "$build/bin/step_bench" "$steps" >"$results/ours"
  "$python" "$root/tests/bench/compare_torch.py" "$steps" >"$results/torch"
  value tokens_per_second <"$results/ours" >>"$results/ours_speed"
  value gemm_share <"$results/ours" >>"$results/share"
  value tokens_per_second <"$results/torch" >>"$results/torch_speed"
  echo "round $round: gimbal $(tail -n 1 "$results/ours_speed") tokens/s," \
    "PyTorch $(tail -n 1 "$results/torch_speed") tokens/s," \
    "GEMM share $(tail -n 1 "$results/share")"
  round=$((round + 1))
done

head -n 1 "$results/ours"
head -n 1 "$results/torch"
ours=$(median <"$results/ours_speed")
torch=$(median <"$results/torch_speed")
echo "gimbal  $ours tokens/s"
echo "PyTorch $torch tokens/s"
awk -v a="$ours" -v b="$torch" \
  'BEGIN { printf "gimbal / PyTorch   %.2f  (target 1.20)\n", a / b }'
echo "GEMMs alone / step $(median <"$results/share")  (target 0.75)"
