#!/bin/bash
# ONNX's tests on the GPU backends that are here: the light models, and a share of the small cases that a seed picks.
# GPU_SHARE: how many small cases a device gets (default 120; "all"), GPU_SEED: which (default: another each day).
set -euo pipefail
source "$SRC/tests/cmd/_check.sh"
suite=$SRC/build/onnx-suite
[ -d "$suite/node" ] && [ -z "$SANITIZE" ] || exit 77
share=${GPU_SHARE:-120}
seed=${GPU_SEED:-$(date +%j)}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

find -L "$suite/node" "$suite/simple" "$suite/pytorch-operator" "$suite/pytorch-converted" -name model.onnx |
    sed 's|/model.onnx$||' | sort >"$work/all"
if [ "$share" = all ]; then
    cp "$work/all" "$work/picked"
else
    while read -r folder; do
        echo "$(cksum <<<"$seed ${folder#"$suite"}" | cut -d' ' -f1) $folder"
    done <"$work/all" | sort -n | awk -v n="$share" 'NR <= n {print $2}' >"$work/picked"
fi
echo "seed $seed, $(wc -l <"$work/picked") of $(wc -l <"$work/all") cases"

mapfile -t picked <"$work/picked"
for device in $("$RLX" devices | awk '$2 == "present" && $1 != "cpu" {print $1}' | sed 's/:.*//' | sort -u); do
    "$RLX" test "${picked[@]}" --device "$device" --contested "$SRC/tests/contested.txt" >"$work/out" 2>&1 ||
        fail "$device: $(grep -v '^passed' "$work/out" | tail -20)"
    echo "$device: $(tail -1 "$work/out")"
    "$RLX" test "$suite/light" --device "$device" >"$work/out" 2>&1 || fail "$device, light: $(tail -5 "$work/out")"
    echo "$device, light: $(tail -1 "$work/out")"
done
