#!/usr/bin/env bash
# Runs the demo model on prompts with known answers and prints a table per task.
#
# usage: scripts/eval.sh [EVAL.jsonl] [--json]     (default: models/demo/eval.jsonl)
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

file=$root/models/demo/eval.jsonl
options=()
for argument in "$@"; do
  case "$argument" in
    --json) options+=(--json) ;;
    -*) echo "usage: scripts/eval.sh [EVAL.jsonl] [--json]" >&2; exit 2 ;;
    *) file=$argument ;;
  esac
done

"$root/scripts/build.sh" fathom
exec "$root/build/release/bin/fathom" eval --model "$root/models/demo" "${options[@]}" "$file"
