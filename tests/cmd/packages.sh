#!/bin/bash
# How packages come to a model: by its domain, by name, or, for one that is registered only on request, by name only.
set -euo pipefail
source "$SRC/tests/cmd/_check.sh"

# Part of the library.
(unset RLX_PACKAGE_PATH; expect 0 '2 passed, 0 failed, 0 skipped' "$RLX" test "$SRC/tests/packages/vision")

# By domain: one model of each.
for model in "$SRC/tests/packages/fft/spectral_layer" "$SRC/tests/packages/linalg/gaussian_process"; do
    (unset RLX_PACKAGE_PATH; expect 1 'no such op' "$RLX" run "$model/model.onnx")
    RLX_PACKAGE_PATH=$BUILD/packages expect 0 '1 passed, 0 failed, 0 skipped' "$RLX" test "$model"
done
export RLX_PACKAGE_PATH=$BUILD/packages

# On request only: its file lies on the package path, and the domain does not bring it in.
gate=$SRC/tests/packages/llada2/gate
expect 1 'llada2.group_limited_gate): no such op' "$RLX" run "$gate/model.onnx"
expect 1 'librlx-llada2.so is registered only when it is named (--ops)' "$RLX" run "$gate/model.onnx"
expect 0 '1 passed, 0 failed, 0 skipped' "$RLX" test "$gate" --ops llada2
expect 0 'llada2.group_limited_gate' "$RLX" ops --ops llada2
if "$RLX" ops | grep -q llada2; then fail "llada2 is registered without being named"; fi

# The references, which are what the ops mean, give the same values as the kernels.
for package in fft linalg vision; do
    expect 0 ' 0 failed, 0 skipped' "$RLX" test "$SRC/tests/packages/$package" --pin "*=eval"
done
