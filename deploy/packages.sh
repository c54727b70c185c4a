# Debian 12 packages that gimbal needs; sourced by deploy/quickstart.sh and
# tests/run.sh.

GIMBAL_BUILD_PACKAGES=(
  g++ cmake ninja-build ccache mold pkg-config
  protobuf-compiler protobuf-compiler-grpc libprotobuf-dev libgrpc++-dev
  libabsl-dev libssl-dev libcurl4-openssl-dev libsqlite3-dev libyaml-cpp-dev prometheus-cpp-dev
  libspdlog-dev nlohmann-json3-dev libcli11-dev libopenblas-dev
)
GIMBAL_TEST_PACKAGES=(
  libgtest-dev libgmock-dev libbenchmark-dev iproute2 iptables openssl python3
  shellcheck
)
GIMBAL_SYSTEM_TEST_PACKAGES=(
  python3-venv slurm-wlm munge buildah mmdebstrap prometheus systemd rsync sqlite3
)
GIMBAL_PAGE_TEST_PACKAGES=(
  chromium chromium-driver python3-selenium fonts-dejavu-core
)
GIMBAL_FUZZ_PACKAGES=(clang-14 libclang-rt-14-dev)
GIMBAL_CORPUS_PACKAGES=(bible-kjv bible-kjv-text)

# install_packages NAME...: installs those that are missing, as root or through
# sudo; without a call to apt when none is. Fails where no server answers.
install_packages() {
  local missing=() name as_root=()
  for name in "$@"; do
    if ! dpkg-query -W -f '${Status}' "$name" 2>/dev/null |
        grep -q '^install ok installed$'; then
      missing+=("$name")
    fi
  done
  if [[ ${#missing[@]} -eq 0 ]]; then
    return 0
  fi
  if [[ $EUID -ne 0 ]]; then
    if ! command -v sudo >/dev/null; then
      echo "these packages are missing: ${missing[*]}" >&2
      echo "install them as root, or install sudo, and run this again" >&2
      return 1
    fi
    as_root=(sudo)
  fi
  echo "installing ${missing[*]}"
  as_root+=(env DEBIAN_FRONTEND=noninteractive)
  local apt=(apt-get -qq -o Acquire::Retries=2 -o Acquire::http::Timeout=30
    -o DPkg::Lock::Timeout=120)
  local install=("${apt[@]}" install -y --no-install-recommends "${missing[@]}")
  # What may hang is what downloads; dpkg is never cut short.
  "${as_root[@]}" timeout 300 "${apt[@]}" update &&
    "${as_root[@]}" timeout 900 "${install[@]}" --download-only >/dev/null &&
    "${as_root[@]}" "${install[@]}" >/dev/null
}
