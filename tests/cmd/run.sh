#!/bin/bash
# rlx run, explain, check, bench and ops on a model: inputs from files, numbers and random; outputs written and read back.
set -euo pipefail
source "$SRC/tests/cmd/_check.sh"
package=$BUILD/packages/librlx-acme.so
model=$SRC/examples/custom_op/model.onnx
data=$SRC/examples/custom_op/test_data_set_0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
json() { python3 -c "import json,sys; d=json.load(sys.stdin); assert $1, d"; }

unset RLX_PACKAGE_PATH
expect 0 'input x  float[5,4]' "$RLX" run "$model" --ops "$package" --input x="$data/input_0.pb" --output "$work/out"
[ -s "$work/out/y.npy" ] || fail "y.npy was not written"
expect 0 'input x  float[1,4]  random' "$RLX" run "$model" --ops "$package"
expect 0 'input x  float[7,4]  random' "$RLX" run "$model" --ops "$package" --dim N=7
expect 0 'input x  float[3,4]  0.5' "$RLX" run "$model" --ops "$package" --dim x.0=3 --input x=0.5
expect 0 'output y  float[0,3]' "$RLX" run "$model" --ops "$package" --dim N=0
"$RLX" run "$model" --ops "$package" --dim N=2 --json --repeat 3 --explain |
    json 'd["outputs"][0]["dims"] == [2, 3] and d["inputs"][0]["source"] == "random" and d["runs"] == 3 and d["report"]'

# The same seed, the same numbers; another seed, others.
first=$("$RLX" run "$model" --ops "$package" --dim N=3 --seed 5 | grep '^output')
again=$("$RLX" run "$model" --ops "$package" --dim N=3 --seed 5 | grep '^output')
other=$("$RLX" run "$model" --ops "$package" --dim N=3 --seed 6 | grep '^output')
[ "$first" = "$again" ] || fail "seed 5 gave two results"
[ "$first" != "$other" ] || fail "seeds 5 and 6 gave the same"

# Inputs that are wrong: no such file, another shape, no such name.
expect_failure 1 'none.npy' "$RLX" run "$model" --ops "$package" --input x="$work/none.npy"
expect_failure 1 'x' "$RLX" run "$model" --ops "$package" --input x="$work/out/y.npy"
expect_failure 1 'the model has no such input' "$RLX" run "$model" --ops "$package" --input z=1
expect_failure 2 '--input takes NAME=SOURCE' "$RLX" run "$model" --ops "$package" --input x
expect_failure 2 '--dim takes SYMBOL=N' "$RLX" run "$model" --ops "$package" --dim N=-3
expect_failure 1 'abacus' "$RLX" run "$model" --ops "$package" --device abacus
expect_failure 1 '' "$RLX" run "$model" --ops "$package" --output "$model"
expect_failure 1 '/nonexistent' "$RLX" run "$model" --ops "$package" --trace /nonexistent/trace

"$RLX" run "$model" --ops "$package" --trace "$work/trace.json" >/dev/null
python3 -m json.tool "$work/trace.json" >/dev/null

expect 0 'acme.softsign' "$RLX" explain "$model" --ops "$package"
"$RLX" explain "$model" --ops "$package" --json | python3 -m json.tool >/dev/null
expect 0 'digraph' "$RLX" explain "$model" --ops "$package" --format dot
"$RLX" explain "$model" --ops "$package" --format dot --output "$work/model.dot" && [ -s "$work/model.dot" ]
if command -v dot >/dev/null; then
    expect 0 '<svg' "$RLX" explain "$model" --ops "$package" --format svg
else
    expect_failure 1 'dot is not installed' "$RLX" explain "$model" --ops "$package" --format svg
fi

expect 0 'x  float[N,4]' "$RLX" check "$model" --ops "$package"
"$RLX" check "$model" --ops "$package" --json | json 'd["ok"] and d["inputs"][0]["dims"] == ["N", 4]'
{ "$RLX" check "$model" --json 2>/dev/null || true; } | json 'not d["ok"] and d["stage"] == "compile" and "acme.softsign" in d["message"]'

expect 0 'acme.softsign' "$RLX" bench "$model" --ops "$package" --repeat 5
"$RLX" bench "$model" --ops "$package" --repeat 5 --json | json 'd["runs"] == 5 and d["min_ms"] > 0 and any(row["op"] == "acme.softsign" for row in d["ops"])'

"$RLX" ops --ops "$package" --json | json 'any(op["name"] == "acme.softsign" and op["eval"] and op["kernels"][0]["name"] == "threads" for op in d)'
expect 0 '| acme.softsign | 1 | eval' "$RLX" ops --ops "$package" --markdown
