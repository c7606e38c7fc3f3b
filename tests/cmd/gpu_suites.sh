#!/bin/bash
# ONNX's tests on the GPU backends that are here: what passes on the CPU passes there. The light models, and a share of
# the small cases that a seed picks. GPU_SHARE: how many of them a device gets (default 120; "all"), GPU_SEED: which
# (default: others each day).
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
mapfile -t picked <"$work/picked"
echo "seed $seed, ${#picked[@]} of $(wc -l <"$work/all") cases"

# The names of the cases that fail on a device.
failing() {
    "$RLX" test "${picked[@]}" --device "$1" --contested "$SRC/tests/contested.txt" >"$work/$1" 2>&1 || true
    echo "$1: $(tail -1 "$work/$1")" >&2
    sed -n 's/^FAIL \([^:]*\):.*/\1/p' "$work/$1" | sort
}

failing cpu >"$work/cpu.failing"
for device in $("$RLX" devices | awk '$2 == "present" && $1 != "cpu" {print $1}' | sed 's/:.*//' | sort -u); do
    failing "$device" >"$work/failing"
    more=$(comm -13 "$work/cpu.failing" "$work/failing")
    [ -z "$more" ] || fail "$device fails, and the CPU does not: $(grep -F "$more" "$work/$device" | head -20)"
    grep -q '^[0-9]* passed' "$work/$device" || fail "$device: $(tail -3 "$work/$device")"
    "$RLX" test "$suite/light" --device "$device" >"$work/out" 2>&1 || fail "$device, light: $(tail -5 "$work/out")"
    echo "$device, light: $(tail -1 "$work/out")"
done
