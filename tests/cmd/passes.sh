#!/bin/bash
# Every pass left out in turn, and all of them at once, gives the same answers.
set -euo pipefail
source "$SRC/tests/cmd/_check.sh"

cases=("$SRC/tests/models/encoder")
for folder in "$SRC"/build/onnx-suite/light-random "$SRC"/build/models/silero-vad*; do
    if [ -d "$folder" ]; then cases+=("$folder"); fi
done
suites=(pytorch-operator)
if [ -n "${RLX_FULL:-}" ]; then suites+=(pytorch-converted); fi
for suite in "${suites[@]}"; do
    if [ -d "$SRC/build/onnx-suite/$suite" ]; then cases+=("$SRC/build/onnx-suite/$suite"); fi
done
mapfile -t passes < <("$RLX" help debug --json | python3 -c '
import json, sys
for row in json.load(sys.stdin)["passes"]: print(row["name"])')
[ ${#passes[@]} -ge 2 ] || fail "only ${#passes[@]} passes"
all=$(IFS=,; echo "${passes[*]}")
for without in "${passes[@]}" "$all"; do
    expect 0 " passed, 0 failed" "$RLX" test --contested "$SRC/tests/contested.txt" --without "$without" \
        "${cases[@]}"
done
echo "${#passes[@]} passes left out in turn over ${#cases[@]} folders"
