#!/usr/bin/env bash
# Installs the Debian packages that a purpose needs; says and does nothing when all are there.
#
# usage: scripts/install-packages.sh [build] [test] [fuzz]     (default: all three)
set -euo pipefail

build=(g++ cmake ninja-build pkg-config libfmt-dev nlohmann-json3-dev libexpected-dev libcli11-dev
  libpcre2-dev libicu-dev libedit-dev libpng-dev libjpeg62-turbo-dev libwebp-dev libgif-dev libssl-dev liburing-dev)
# The sanitizer presets are clang builds; llvm-14 gives their reports names.
test=(libgtest-dev libgmock-dev clang-14 clang-format-14 libclang-rt-14-dev llvm-14)
fuzz=(clang-14 libclang-rt-14-dev llvm-14 jq)

wanted=("${build[@]}")
[[ $# -gt 0 ]] || set -- build test fuzz
for purpose in "$@"; do
  case "$purpose" in
    build) ;;
    test) wanted+=("${test[@]}") ;;
    fuzz) wanted+=("${fuzz[@]}") ;;
    *) echo "install-packages.sh: expected build, test or fuzz, found '$purpose'" >&2; exit 2 ;;
  esac
done

missing=()
for package in "${wanted[@]}"; do
  status=$(dpkg-query -W -f '${db:Status-Status}\n' "$package" 2>/dev/null || true)
  [[ "$status" == *"installed"* && "$status" != *"not-installed"* ]] || missing+=("$package")
done
[[ ${#missing[@]} -gt 0 ]] || exit 0

command -v apt-get >/dev/null || {
  echo "install-packages.sh: this is not Debian (no apt-get); install what these packages hold: ${missing[*]}" >&2
  echo "  then: cmake --preset release -DFATHOM_TESTS=OFF && cmake --build build/release" >&2
  exit 1
}
as_root=()
if [[ $EUID -ne 0 ]]; then
  command -v sudo >/dev/null || {
    echo "install-packages.sh: not root and no sudo; as root, install: ${missing[*]}" >&2; exit 1; }
  as_root=(sudo)
fi
apt() { "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Acquire::Retries=3 "$@"; }

echo "Installing: ${missing[*]}"
for attempt in 1 2 3; do
  if apt update; then break; fi
  [[ $attempt -lt 3 ]] || { echo "install-packages.sh: apt-get update failed three times" >&2; exit 1; }
  sleep $((attempt * 5))
done
apt install --yes --no-install-recommends "${missing[@]}" >/dev/null
