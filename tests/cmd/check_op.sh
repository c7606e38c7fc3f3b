#!/bin/bash
# rlx check-op: every op of rlx and of the packages passes, in bounded time, with one seed; the command's arguments.
set -euo pipefail
source "$SRC/tests/cmd/_check.sh"

expect 0 'onnx.Softmax@13: ok' "$RLX" check-op onnx.Softmax
expect 0 '"verdict":	"ok"' "$RLX" check-op onnx.Relu --json
expect 0 '1 ops: 1 passed, 0 failed, 0 not tested' "$RLX" check-op onnx.Add@7 --sample 'float[2,3], float[3]' --quick
expect_failure 1 "no op 'no.such'" "$RLX" check-op no.such
expect_failure 2 'NAME@VERSION' "$RLX" check-op onnx.Add@x
expect_failure 2 'one op' "$RLX" check-op all --sample 'float[2]'
expect 1 'the row cannot be read' "$RLX" check-op onnx.Relu --sample 'float[2'
expect 0 'acme.softsign@1: ok' "$RLX" check-op acme.softsign --sample 'float[3,4]' --ops "$BUILD/packages/librlx-acme.so"
expect 0 'acme.softsign@1: not tested' "$RLX" check-op acme.softsign --ops "$BUILD/packages/librlx-acme.so"
expect 0 'none was given' "$RLX" check-op acme.softsign --ops "$BUILD/packages/librlx-acme.so"

# All of them. Another seed takes other contents and threads meet at other times; what fails is printed with the
# command that shows it again.
output=$("$RLX" check-op all --seed 1 --timeout 60) || fail "$(grep -A12 FAIL <<<"$output")"
tail -1 <<<"$output"
