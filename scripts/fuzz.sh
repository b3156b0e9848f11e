#!/usr/bin/env bash
# Builds the fuzzers and runs each for a while, starting from the golden files.
#
# usage: scripts/fuzz.sh [SECONDS] [NAME...]     (default: 60 seconds each, all of fuzz/*_fuzz.cc)
# Corpora grow in build/corpus/NAME; a failing input is left in build/corpus/NAME-*.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

seconds=${1:-60}
[[ "$seconds" =~ ^[1-9][0-9]*$ ]] || { echo "usage: scripts/fuzz.sh [SECONDS] [NAME...]" >&2; exit 2; }
shift || true
names=("$@")
if [[ ${#names[@]} -eq 0 ]]; then
  for source in fuzz/*_fuzz.cc; do
    name=${source#fuzz/}
    names+=("${name%_fuzz.cc}")
  done
fi

# Puts every line of stdin into a file of its own.
one_file_each() { split --lines 1 --suffix-length 5 --numeric-suffixes - "$1/case_"; }

# Files of at most 64 KB among the arguments; larger ones only slow the fuzzer down.
copy_small() {
  local to=$1 file
  shift
  for file in "$@"; do
    if [[ $(stat --format %s "$file") -le 65536 ]]; then cp "$file" "$to/${file//\//_}"; fi
  done
}

make_corpus() {
  local name=$1 to=$2 text=tests/golden/text
  mkdir -p "$to"
  case "$name" in
    safetensors) copy_small "$to" tests/golden/ops/*.safetensors ;;
    index) copy_small "$to" tests/golden/tiny/model/*.index.json models/demo/*.index.json ;;
    config) copy_small "$to" tests/golden/tiny/model/config.json models/demo/config.json ;;
    tokenizer)
      copy_small "$to" tests/golden/tiny/model/tokenizer.json models/demo/tokenizer.json
      jq --compact-output '.[] | .text' "$text/tokenize_tiny.json" | one_file_each "$to" ;;
    chat_request) jq --compact-output '.encode[]' "$text/chat.json" | one_file_each "$to" ;;
    completion)  # a byte for the mode (bit 0: thinking) and the size of pieces, then the text
      local case=0 count
      count=$(jq '.parse | length' "$text/chat.json")
      for ((case = 0; case < count; ++case)); do
        jq --join-output ".parse[$case] | (if .thinking_mode == \"thinking\" then \"1\" else \"0\" end) + .completion" \
          "$text/chat.json" >"$to/case_$case"
      done ;;
    image_gif | image_png | image_webp)
      copy_small "$to" tests/golden/images/*."${name#image_}" tests/golden/decode/*."${name#image_}" ;;
    image_jpeg) copy_small "$to" tests/golden/images/*.jpg tests/golden/decode/*.jpg ;;
    *) ;;  # starts from nothing
  esac
}

scripts/install-packages.sh build fuzz
cmake --preset fuzz >/dev/null
cmake --build --preset fuzz --target "${names[@]/#/fuzz_}"
for name in "${names[@]}"; do
  echo "== $name"
  corpus=build/corpus/$name
  [[ -d "$corpus" ]] || make_corpus "$name" "$corpus"
  "build/fuzz/bin/fuzz_$name" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
    -artifact_prefix="build/corpus/$name-" "$corpus"
done
