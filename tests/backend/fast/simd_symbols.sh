#!/usr/bin/env bash
# Fails when an object that is compiled for one Isa has weak or unique symbols that other objects could share:
# the linker keeps any one of them, also for processors without those instructions.
#
# usage: simd_symbols.sh <nm> <object>...
set -euo pipefail
nm=$1
shift
(($# > 0)) || { echo "expected objects" >&2; exit 1; }

bad=0
for object in "$@"; do
  symbols=$("$nm" --format=posix "$object")
  [[ $symbols == *fathom* ]] || { echo "$object: expected the project's symbols, found none" >&2; bad=1; }
  # Names within fathom::fast::<isa> are the Isa's own. DW.ref.* are data of the unwinder.
  if grep -E '^[^ ]+ [WwVvu] ' <<<"$symbols" | grep -vE '^_ZN?K?6fathom4fast(8portable|4avx2|6avx512|3amx)|^DW\.ref\.'; then
    echo "$object: weak symbols, above" >&2
    bad=1
  fi
done
exit "$bad"
