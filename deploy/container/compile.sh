#!/usr/bin/env bash
# Inside the first stage of the image: compiles the programs, or takes those
# that are in the context, into OUT.
#
#   deploy/container/compile.sh CUDA PREBUILT OUT
set -euo pipefail
cd "$(dirname "$0")/../.."
readonly CUDA=$1 PREBUILT=$2 OUT=$3

if [[ -n $PREBUILT ]]; then
  cp -r "$PREBUILT" "$OUT"
  exit
fi
source deploy/packages.sh
install_packages "${GIMBAL_BUILD_PACKAGES[@]}"
cmake --preset release -DGIMBAL_CUDA="$CUDA"
targets=(gimbal gimbal-coordinator gimbal-worker)
[[ $CUDA != ON ]] || targets+=(gimbal_cuda)
cmake --build --preset release --target "${targets[@]}"
deploy/container/collect.sh build/release/bin "$OUT"
