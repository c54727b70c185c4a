#!/usr/bin/env bash
# From a checkout on a fresh Debian 12 to a trained model: installs packages,
# builds, prepares the King James Bible as bytes, trains a small model in an
# asynchronous pipeline of four worker processes (a few minutes on 2 cores) and
# prints a sample of what it learnt. Run it again to do only what is missing.
set -euo pipefail
cd "$(dirname "$0")/.."
source deploy/packages.sh

readonly RUN=runs/quickstart
readonly CORPUS=data/kjv
readonly GIMBAL=build/release/bin/gimbal

step() { printf '\n== %s\n' "$*"; }

# One verse per line, without its label; whole or not there.
print_corpus() {
  bible -f 'gen1:1-rev22:21' | sed -E 's/^[^ ]+ //' >"$1.tmp"
  mv "$1.tmp" "$1"
}

step "packages"
install_packages "${GIMBAL_BUILD_PACKAGES[@]}" "${GIMBAL_CORPUS_PACKAGES[@]}"

step "build (the first time takes some minutes)"
cmake --preset release >/dev/null
cmake --build --preset release --target gimbal gimbal-coordinator gimbal-worker

step "corpus"
mkdir -p data
[[ -s $CORPUS.txt ]] || print_corpus "$CORPUS.txt"
[[ -e $CORPUS/meta.json ]] || "$GIMBAL" prepare "$CORPUS.txt" --out "$CORPUS"
echo "$CORPUS: $(wc -c <"$CORPUS.txt") bytes of text"

step "training: 4 stages, 4 worker processes, asynchronous 1F1B"
# On a finished run --resume finds nothing to do.
if [[ -e $RUN/config.yaml ]]; then
  "$GIMBAL" train --run-dir "$RUN" --resume
else
  "$GIMBAL" train deploy/examples/quickstart.yaml --run-dir "$RUN"
fi

step "a sample of what it learnt"
"$GIMBAL" generate "$RUN" --prompt "And the LORD said unto " --tokens 400 --temperature 0.7

cat <<END

== next
  $GIMBAL generate $RUN --prompt "In the beginning" --temperature 0.5
  $GIMBAL train deploy/examples/quickstart.yaml --run-dir runs/adamw \\
      --set optimizer.name=adamw          the same pipeline with plain AdamW
  $GIMBAL compare runs/adamw $RUN --plot loss.svg
  $GIMBAL plan deploy/examples/quickstart.yaml     what each stage holds
  $GIMBAL config                          every key of the config
END
