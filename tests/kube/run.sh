#!/usr/bin/env bash
# Runs test modules of this folder: tests/kube/run.sh manifest_test ...
# Environment: GIMBAL_BIN_DIR. The tools that they need are fetched once, into
# build/kube-tools.
set -euo pipefail
cd "$(dirname "$0")"
GIMBAL_SOURCE_DIR=$(cd ../.. && pwd)
export GIMBAL_SOURCE_DIR
export GIMBAL_KUBE_TOOLS=$GIMBAL_SOURCE_DIR/build/kube-tools
mkdir -p "$GIMBAL_SOURCE_DIR/build"
(
  # Tests that run side by side fetch once.
  flock 9
  ./fetch_tools.sh "$GIMBAL_KUBE_TOOLS"
) 9>"$GIMBAL_SOURCE_DIR/build/kube-tools.lock"
export PYTHONPATH=$GIMBAL_SOURCE_DIR/tests/support
exec "$GIMBAL_KUBE_TOOLS/python/bin/python" -B -m unittest "$@"
