#!/usr/bin/env bash
# Builds one target with the release preset; says how far it is when that takes long, and the rest when it fails.
# For the other scripts.
#
# usage: scripts/build.sh [TARGET]     (default: fathom)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

target=${1:-fathom}
scripts/install-packages.sh build
log=$(mktemp)
trap 'rm -f "$log"' EXIT
fail() { cat "$log" >&2; exit 1; }

# Puts the lines of stdin into the log. Those that begin with ninja's [STEP/STEPS] are shown as one line that
# changes, or where there is no terminal as a line now and then.
follow() {
  local line shown=$SECONDS
  while IFS= read -r line; do
    printf '%s\n' "$line" >>"$log"
    [[ "$line" =~ ^\[([0-9]+)/([0-9]+)\] ]] || continue
    if [[ -t 2 ]]; then
      printf '\r  step %s of %s \r' "${BASH_REMATCH[1]}" "${BASH_REMATCH[2]}" >&2
    elif ((SECONDS - shown >= 20)); then
      printf '  step %s of %s\n' "${BASH_REMATCH[1]}" "${BASH_REMATCH[2]}" >&2
      shown=$SECONDS
    fi
  done
  if [[ -t 2 ]]; then printf '\r\033[K' >&2; fi
}

# The tests need more packages; a build that has them already keeps them.
if [[ ! -f build/release/build.ninja ]]; then
  echo "Building Fathom (a few minutes the first time)..." >&2
  cmake --preset release -DFATHOM_TESTS=OFF >"$log" 2>&1 || fail
fi
cmake --build build/release --target "$target" 2>&1 | follow || fail
