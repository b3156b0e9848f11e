#!/usr/bin/env bash
# Installs what the tests need, builds and runs them all: release (g++), then under the sanitizers (clang).
#
# usage: scripts/test.sh [--quick]     --quick leaves the sanitizers out
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

presets=(release asan tsan)
case "${1:-}" in
  "") ;;
  --quick) presets=(release) ;;
  *) echo "usage: scripts/test.sh [--quick]" >&2; exit 2 ;;
esac

scripts/install-packages.sh build test
export ASAN_OPTIONS=detect_leaks=1:strict_string_checks=1 UBSAN_OPTIONS=print_stacktrace=1
# Thread sanitizer's memory map fails under the stronger address randomization of newer kernels.
same_addresses=()
if setarch --addr-no-randomize true 2>/dev/null; then same_addresses=(setarch --addr-no-randomize); fi
for preset in "${presets[@]}"; do
  echo "== $preset"
  cmake --preset "$preset" -DFATHOM_TESTS=ON >/dev/null
  cmake --build --preset "$preset"
  "${same_addresses[@]}" ctest --preset "$preset" --parallel "$(nproc)"
done
