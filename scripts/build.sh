#!/usr/bin/env bash
# Builds one target with the release preset, quietly unless it takes long or fails. For the other scripts.
#
# usage: scripts/build.sh [TARGET]     (default: fathom)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

target=${1:-fathom}
scripts/install-packages.sh build
log=$(mktemp)
trap 'rm -f "$log"' EXIT
run() { "$@" >"$log" 2>&1 || { cat "$log" >&2; exit 1; }; }

# The tests need more packages; a build that has them already keeps them.
if [[ ! -f build/release/build.ninja ]]; then
  echo "Building Fathom (a few minutes the first time)..." >&2
  run cmake --preset release -DFATHOM_TESTS=OFF
fi
run cmake --build build/release --target "$target"
