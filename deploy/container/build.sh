#!/usr/bin/env bash
# Builds the image with buildah, podman or docker, whichever is there.
#
#   deploy/container/build.sh cpu  [NAME]      default: gimbal:VERSION
#   deploy/container/build.sh cuda [NAME]      default: gimbal:VERSION-cuda
#
# Further arguments go to the builder, e.g. --build-arg BUILD_BASE=...
set -euo pipefail
cd "$(dirname "$0")/../.."

readonly CUDA_IMAGE=docker.io/nvidia/cuda:13.0.1
version=$(sed -n 's/^project(gimbal VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
revision=$(git rev-parse HEAD 2>/dev/null || echo unknown)

case ${1-} in
  cpu)
    name=gimbal:$version
    arguments=()
    ;;
  cuda)
    name=gimbal:$version-cuda
    arguments=(
      --build-arg CUDA=ON
      --build-arg "BUILD_BASE=$CUDA_IMAGE-devel-ubuntu24.04"
      --build-arg "RUNTIME_BASE=$CUDA_IMAGE-runtime-ubuntu24.04"
    )
    ;;
  *) sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0" >&2; exit 2 ;;
esac
shift
if [[ $# -gt 0 && $1 != -* ]]; then
  name=$1
  shift
fi

arguments+=(-f deploy/container/Dockerfile -t "$name"
  --build-arg "VERSION=$version" --build-arg "REVISION=$revision")
if command -v buildah >/dev/null; then
  # Health checks are not part of the OCI format.
  exec buildah bud --format docker "${arguments[@]}" "$@" .
elif command -v podman >/dev/null; then
  exec podman build --format docker "${arguments[@]}" "$@" .
elif command -v docker >/dev/null; then
  exec docker build "${arguments[@]}" "$@" .
fi
echo "build.sh: found none of buildah, podman and docker; install one" >&2
exit 1
