#!/usr/bin/env bash
# Installs what the tests need, builds them and runs them. Without options:
# preset dev without the tests that need systems beside gimbal, then the
# concurrent tests with tsan. Run it again to build only what changed.
#
#   tests/run.sh                              presets dev and tsan
#   tests/run.sh --preset dev --label unit    labels are a regular expression
#   tests/run.sh --preset dev --label 'slurm|kube|image|monitoring|page'
#                                             with a real Slurm, Kubernetes' tools,
#                                             an image, Prometheus and a browser
#   tests/run.sh --preset asan-ubsan          unit and integration tests under
#                                             Address- and UndefinedBehaviorSanitizer
#   tests/run.sh --preset tsan                the concurrent ones under ThreadSanitizer
#
# --preset may be repeated.
set -euo pipefail
cd "$(dirname "$0")/.."
source deploy/packages.sh

# Tests with threads of our own; the others have nothing for TSan to find.
readonly TSAN_TESTS='contract|link|grants|snapshot|stash|stage_host|event_loop|coordinator|trace'

usage() {
  sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0"
  exit "$1"
}

# Labels of tests that need more packages, and minutes.
readonly SYSTEMS='slurm|kube|image|monitoring'

presets=() label=''
while [[ $# -gt 0 ]]; do
  case $1 in
    --preset) presets+=("${2:?--preset needs a name}"); shift 2 ;;
    --label) label=${2:?--label needs a regular expression}; shift 2 ;;
    -h|--help) usage 0 ;;
    *) echo "tests/run.sh: unknown option $1" >&2; usage 2 >&2 ;;
  esac
done
[[ ${#presets[@]} -gt 0 ]] || presets=(dev tsan)

# Arguments of ctest that select the tests of a preset.
selection() {
  case $1 in
    asan-ubsan) echo "-L ${label:-^(unit|integration|cuda_host)$}" ;;
    tsan) echo "-L ${label:-^(unit|integration)$} -R $TSAN_TESTS" ;;
    *) if [[ -n $label ]]; then echo "-L $label"; else echo "-LE ^($SYSTEMS)$"; fi ;;
  esac
}

# A test's name is its target's. Sanitizer builds leave out what they do not
# run; dev builds everything.
targets_of() {
  [[ $1 == dev ]] && return 0
  echo --target
  ctest --test-dir "build/$1" -N "${@:2}" |
    sed -n 's/^ *Test *#[0-9]*: //p'
}

# Steps are chained because a caller that looks at the result switches the
# shell's -e off.
run_preset() {
  local preset=$1 args targets cuda=()
  read -ra args <<<"$(selection "$preset")"
  printf '\n== %s: build\n' "$preset"
  # One architecture for the time it takes; preset cuda builds all of them.
  if [[ $preset == dev ]] && command -v nvcc >/dev/null; then
    cuda=(-DGIMBAL_CUDA=ON -DCMAKE_CUDA_ARCHITECTURES=90)
  fi
  cmake --preset "$preset" "${cuda[@]}" >/dev/null &&
    mapfile -t targets < <(targets_of "$preset" "${args[@]}") &&
    cmake --build --preset "$preset" "${targets[@]}" || return 1
  printf '\n== %s: test\n' "$preset"
  # Tests that would disturb others are marked to run alone.
  # Debian's libraries are not instrumented; see common/cmake/BuildFlags.cmake.
  TSAN_OPTIONS="ignore_noninstrumented_modules=1 halt_on_error=1" \
    ctest --test-dir "build/$preset" --output-on-failure --no-tests=error \
    "${args[@]}"
}

install_packages "${GIMBAL_BUILD_PACKAGES[@]}" "${GIMBAL_TEST_PACKAGES[@]}"
if [[ $label =~ $SYSTEMS|page ]]; then
  install_packages "${GIMBAL_SYSTEM_TEST_PACKAGES[@]}"
fi
failed=()
for preset in "${presets[@]}"; do
  run_preset "$preset" || failed+=("$preset")
done
if [[ ${#failed[@]} -gt 0 ]]; then
  printf '\ntests failed with preset: %s\n' "${failed[*]}"
  exit 1
fi
printf '\nall tests passed with preset: %s\n' "${presets[*]}"
