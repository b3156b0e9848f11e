#!/usr/bin/env bash
# Formats the sources with clang-format-14, or with --check fails when one is not formatted.
#
# usage: scripts/format.sh [--check]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

action=(-i)
case "${1:-}" in
  "") ;;
  --check) action=(--dry-run -Werror) ;;
  *) echo "usage: scripts/format.sh [--check]" >&2; exit 2 ;;
esac
find src tests fuzz tools \( -name '*.h' -o -name '*.cc' \) -print0 |
  xargs --null --no-run-if-empty --max-args 16 --max-procs "$(nproc)" clang-format-14 "${action[@]}"
