#!/bin/bash
# The example's portable kernel: the README's code, right on the CPU and on every GPU that is here, without a host step.
set -euo pipefail
source "$SRC/tests/cmd/_check.sh"
package=$BUILD/packages/librlx-gate.so
model=$SRC/examples/portable_kernel

shown=$(awk '/^```c$/ {block++; next} /^```$/ {if (inside) exit} {inside = block == 2} inside' "$SRC/README.md")
[ -n "$shown" ] || fail "README.md shows no portable kernel"
[ "$(wc -l <<<"$shown")" -le 20 ] || fail "README.md's portable kernel has more than 20 lines"
code=$(<"$model/gate.c")
[[ $code == *"$shown"* ]] || fail "README.md shows another kernel than gate.c"

expect 0 '1 passed, 0 failed, 0 skipped' "$RLX" test "$model" --ops "$package"
expect 0 'demo.gate' "$RLX" ops --ops "$package"
for device in vulkan cuda metal; do
    "$RLX" devices | grep -q "^$device .*absent\|^$device.*no " && continue
    "$RLX" run "$model/model.onnx" --ops "$package" --device $device --dim N=2 >/dev/null 2>&1 || continue
    expect 0 '1 passed, 0 failed, 0 skipped' "$RLX" test "$model" --ops "$package" --device $device --policy forbid
    expect 0 'portable' "$RLX" explain "$model/model.onnx" --ops "$package" --device $device
    echo "portable kernel on $device"
done
