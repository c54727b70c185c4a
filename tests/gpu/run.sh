#!/usr/bin/env bash
# Proves and times the CUDA back end on a machine with an NVIDIA GPU, inside 8
# minutes: builds the numeric core, runs every test of CUDA on the device, trains a
# small model in 8 stages there and on the CPU, times the ops and steps of GPT-2
# 124M and 350M. Prints Markdown; ends with a table of what passed and what was
# left out. Exit code 1 when anything failed.
#
#   tests/gpu/run.sh                   into build/gpu
#   tests/gpu/run.sh --host            the same on the host layer, with tiny sizes:
#                                      proves this script, times say nothing
#   tests/gpu/run.sh --bin DIR ...     with programs that have been built
#
# Needs CMake, Ninja, a C++20 compiler, the CUDA toolkit (nvcc, cuBLAS, cuSOLVER) and
# a few libraries: those of the system, or build/gpu-libraries.tar.xz (pack.sh).
set -euo pipefail
cd "$(dirname "$0")/../.."

readonly LIBRARIES=build/gpu-libraries.tar.xz

usage() {
  sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0"
  exit "$1"
}

host='' bin=''
limit=475 build_limit=200  # seconds of everything, and of the build
while [[ $# -gt 0 ]]; do
  case $1 in
    --host) host=1; shift ;;
    --bin) bin=${2:?--bin needs a folder}; shift 2 ;;
    -h|--help) usage 0 ;;
    *) echo "tests/gpu/run.sh: unknown option $1" >&2; usage 2 >&2 ;;
  esac
done

results=() failed=''

# phase NAME SECONDS COMMAND...: runs the command for at most so long, and no
# longer than what is left of the limit.
phase() {
  local name=$1 seconds=$2 left=$((limit - SECONDS)) start=$SECONDS rc=0
  shift 2
  if ((left < 5)); then
    results+=("| $name | left out: no time | |")
    return 0
  fi
  printf '\n## %s\n\n' "$name"
  timeout --kill-after=5 "$((seconds < left ? seconds : left))" "$@" || rc=$?
  case $rc in
    0) results+=("| $name | passed | $((SECONDS - start)) |") ;;
    124|137) results+=("| $name | FAILED: cut off | $((SECONDS - start)) |") ;;
    *) results+=("| $name | FAILED with exit code $rc | $((SECONDS - start)) |") ;;
  esac
  if ((rc != 0)); then failed+="$name; "; fi
}

# Libraries that were brought along come before the system's.
unpack_libraries() {
  if [[ ! -f $LIBRARIES ]]; then return 0; fi
  local to=$PWD/build/gpu-libraries
  mkdir -p "$to"
  tar -C "$to" --extract --xz --file "$LIBRARIES"
  options+=("-DCMAKE_PREFIX_PATH=$to/usr")
  local lib=$to/usr/lib/x86_64-linux-gnu
  export LD_LIBRARY_PATH=$lib:$lib/openblas-pthread${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
}

options=()
if [[ -n $host ]]; then
  folder=build/gpu-host
  limit=3600 build_limit=3000
  programs=(cuda_ops_test cuda_update_test cuda_engine_test gpu_bench_host)
  tiny=(--tiny)
  # One test of each program: ctest runs all of them.
  only=('*Activation*' '*PredictsManyUpdatesAhead' '*NotFinite*')
else
  folder=build/gpu
  programs=(gpu_ops_test gpu_update_test gpu_engine_test gpu_bench)
  tiny=()
  only=('*' '*' '*')
  options+=(-DGIMBAL_CUDA=ON -DCMAKE_CUDA_ARCHITECTURES=native)
  if ! command -v nvcc >/dev/null; then export PATH=$PATH:/usr/local/cuda/bin; fi
fi

printf '# gimbal on a GPU, %s\n\n' "$(date -u +%F)"
if [[ -n $host ]]; then
  echo 'On the host layer: no number of seconds below says anything about a GPU.'
else
  nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.max.sm \
    --format=csv,noheader || echo 'nvidia-smi finds no GPU'
fi
echo 'Shares of a peak are of that of the type: bf16 in tensor cores, fp32 outside of them.'

if [[ -z $bin ]]; then
  bin=$folder/bin
  unpack_libraries
  # Warnings of a compiler that is not CI's are none of this script's business.
  phase configure 60 cmake --log-level=WARNING -G Ninja -S . -B "$folder" \
    -DCMAKE_BUILD_TYPE=Release -DGIMBAL_SERVICES=OFF -DGIMBAL_WERROR=OFF "${options[@]}"
  if [[ -z $failed ]]; then
    phase build "$build_limit" cmake --build "$folder" --target "${programs[@]}" -- --quiet
  fi
fi
export OPENBLAS_NUM_THREADS=1
if [[ -z $failed ]]; then
  for i in 0 1 2; do
    phase "${programs[i]}" 90 "$bin/${programs[i]}" --gtest_brief=1 \
      --gtest_filter="${only[i]}"
  done
  bench=$bin/${programs[3]}
  phase 'training against the CPU' 60 "$bench" train "${tiny[@]}"
  phase 'ops' 60 "$bench" ops "${tiny[@]}" --seconds 30
  phase 'GPT-2 124M' 100 "$bench" 124M "${tiny[@]}" --seconds 45 \
    --rotation
  phase 'GPT-2 350M' 100 "$bench" 350M "${tiny[@]}" --seconds 45
fi

printf '\n## Summary\n\n| phase | | seconds |\n|---|---|---|\n'
printf '%s\n' "${results[@]}"
printf '\n%s seconds in all.\n' "$SECONDS"
if [[ -n $failed ]]; then
  printf 'FAILED: %s\n' "${failed%; }"
  exit 1
fi
