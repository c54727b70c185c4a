#!/usr/bin/env bash
# Installs what the tests need, builds them and runs them. Without options:
# preset dev, then the concurrent tests with tsan. Tests with a real Slurm,
# Kubernetes' tools, an image, machines with systemd or Prometheus are left out
# where these cannot be had; the last lines say which and why. Run it again to
# build only what changed.
#
#   tests/run.sh                              presets dev and tsan
#   tests/run.sh --preset dev --label unit    labels are a regular expression
#   tests/run.sh --preset dev --label page    the status page, in a browser
#   tests/run.sh --preset asan-ubsan          unit and integration tests under
#                                             Address- and UndefinedBehaviorSanitizer
#   tests/run.sh --preset tsan                the concurrent ones under ThreadSanitizer
#
# --preset may be repeated.
set -euo pipefail
cd "$(dirname "$0")/.."
source deploy/packages.sh
source tests/systems.sh

# Tests with threads of our own; the others have nothing for TSan to find.
readonly TSAN_TESTS='contract|link|grants|snapshot|stash|stage_host|event_loop|coordinator|trace'

usage() {
  sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0"
  exit "$1"
}

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
    *) echo "${label:+-L $label} ${left_out:+-LE ^($left_out)$}" ;;
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

# Sanitizer builds run none of the tests that need systems.
runs_systems() {
  local preset
  for preset in "${presets[@]}"; do
    case $preset in asan-ubsan | tsan) ;; *) return 0 ;; esac
  done
  return 1
}

# Installs everything in one go. Where the packages of the systems cannot be had,
# the others suffice.
install_what_is_wanted() {
  local packages=("${GIMBAL_BUILD_PACKAGES[@]}" "${GIMBAL_TEST_PACKAGES[@]}")
  if [[ -n $label && page =~ $label ]]; then
    packages+=("${GIMBAL_PAGE_TEST_PACKAGES[@]}")
  fi
  if [[ ${#wanted[@]} -gt 0 ]]; then
    install_packages "${packages[@]}" "${GIMBAL_SYSTEM_TEST_PACKAGES[@]}" ||
      echo "tests/run.sh: goes on without packages that are missing" >&2
  fi
  install_packages "${packages[@]}"
}

say_what_is_left_out() {
  local reason
  for reason in "${reasons[@]}"; do
    printf 'left out, because it cannot run here: %s\n' "$reason"
  done
}

wanted=()
for system in "${SYSTEMS[@]}"; do
  if [[ $system =~ ${label:-.} ]] && runs_systems; then
    wanted+=("$system")
  fi
done
install_what_is_wanted
left_out='' reasons=()
for system in "${wanted[@]}"; do
  reason=$(can_test "$system") || {
    left_out+=${left_out:+|}$system
    reasons+=("$system ($reason)")
  }
done
say_what_is_left_out
failed=()
for preset in "${presets[@]}"; do
  run_preset "$preset" || failed+=("$preset")
done
printf '\n'
say_what_is_left_out
if [[ ${#failed[@]} -gt 0 ]]; then
  printf 'tests failed with preset: %s\n' "${failed[*]}"
  exit 1
fi
printf 'all tests passed with preset: %s\n' "${presets[*]}"
