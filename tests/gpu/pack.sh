#!/usr/bin/env bash
# Packs the libraries that the numeric core needs (GIMBAL_SERVICES=OFF) from this
# machine's Debian packages, for a machine where nothing can be installed:
#
#   tests/gpu/pack.sh            writes build/gpu-libraries.tar.xz
#
# Copy it with the checkout, to the same place; tests/gpu/run.sh unpacks it there.
# The other machine needs glibc 2.36 or newer (Debian 12, Ubuntu 24.04).
set -euo pipefail
cd "$(dirname "$0")/../.."
source deploy/packages.sh

readonly PACKAGES=(
  libabsl-dev libabsl20220623 libspdlog-dev libspdlog1.10 libfmt-dev libfmt9
  nlohmann-json3-dev libssl-dev libopenblas-pthread-dev libopenblas0-pthread
  libgfortran5 libquadmath0 libgtest-dev libgmock-dev
)
# Twice there, or not needed: the shared OpenSSL is not, so its archive is found.
readonly LEFT_OUT='/(lib(openblas|blas|lapack)[^/]*\.a|lib(lapack|blas)\.so.*|lib(ssl|crypto)\.so|libssl\.a|gdb/.*)$'

install_packages "${PACKAGES[@]}"
mkdir -p build
dpkg -L "${PACKAGES[@]}" | grep -E '^/usr/(include|lib|share/cmake)/' | sort -u |
  grep -vE "$LEFT_OUT" |
  while read -r path; do
    if [[ -L $path || -f $path ]]; then echo "${path#/}"; fi
  done >build/gpu-libraries.list
# Headers of one architecture stand beside the others: not every compiler looks for
# them in a folder of their own below a prefix.
XZ_OPT='-T0 -1' tar -C / --create --xz --no-recursion \
  --transform 's,^usr/include/x86_64-linux-gnu/,usr/include/,' \
  --files-from build/gpu-libraries.list --file build/gpu-libraries.tar.xz.part
rm build/gpu-libraries.list
mv build/gpu-libraries.tar.xz.part build/gpu-libraries.tar.xz
echo "build/gpu-libraries.tar.xz: $(du -h build/gpu-libraries.tar.xz | cut -f 1)"
