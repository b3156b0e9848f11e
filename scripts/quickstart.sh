#!/usr/bin/env bash
# From a fresh clone on Debian 12 to an answer: installs packages, builds, and asks the embedded demo model.
#
# usage: scripts/quickstart.sh ["prompt"]
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
prompt=${1:-Help}

"$root/scripts/build.sh" fathom

echo "> $prompt"
"$root/build/release/bin/fathom" generate --model "$root/models/demo" --chat --thinking off --temperature 0 \
  --max-tokens 200 --prompt "$prompt"
cat <<END

The demo model is tiny: it knows a small invented world and a few kinds of task. Next:
  chat      build/release/bin/fathom chat --model models/demo --thinking off --temperature 0
  options   build/release/bin/fathom --help
  serve     not there yet: this version has no HTTP server
  released  build/release/bin/fathom inspect --model DIR     with DIR the published checkpoint as downloaded
            build/release/bin/fathom chat --model DIR        it is used as it is, without a conversion
END
