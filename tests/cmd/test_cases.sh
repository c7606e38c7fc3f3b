#!/bin/bash
# rlx test on cases that must fail, each for its own reason: the failure is named, counted, and does not stop the others.
set -euo pipefail
source "$SRC/tests/cmd/_check.sh"
package=$BUILD/packages/librlx-acme.so
good=$SRC/examples/custom_op
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# tensor FILE DTYPE(float|int64) DIMS VALUES…: writes a TensorProto.
tensor() {
    python3 - "$@" <<'P'
import struct, sys
path, dtype, dims, values = sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:]
code, letter = {"float": (1, "f"), "int64": (7, "q")}[dtype]
data = b"".join(struct.pack("<" + letter, float(v) if letter == "f" else int(v)) for v in values)
sizes = bytes(int(d) for d in dims.split(",") if d)
out = b"".join(b"\x08" + bytes([d]) for d in sizes) + b"\x10" + bytes([code]) + b"\x4a" + bytes([len(data)]) + data
open(path, "wb").write(out)
P
}

# case NAME: a copy of the good case.
new_case() {
    cp -r "$good" "$work/suite/$1"
    rm -f "$work/suite/$1"/*.c "$work/suite/$1"/*.py "$work/suite/$1"/*.txt
}

mkdir -p "$work/suite/deep"
new_case good
new_case deep/also_good
new_case value && tensor "$work/suite/value/test_data_set_0/output_0.pb" float 5,3 9 9 9 9 9 9 9 9 9 9 9 9 9 9 9
new_case shape && tensor "$work/suite/shape/test_data_set_0/output_0.pb" float 3 1 2 3
new_case dtype && tensor "$work/suite/dtype/test_data_set_0/output_0.pb" int64 1 1
new_case input_rank && tensor "$work/suite/input_rank/test_data_set_0/input_0.pb" float 4 1 2 3 4
new_case no_output && rm "$work/suite/no_output/test_data_set_0/output_0.pb"
new_case no_input && rm "$work/suite/no_input/test_data_set_0/input_0.pb"
new_case no_data && rm -r "$work/suite/no_data/test_data_set_0"
new_case more_inputs && cp "$good/test_data_set_0/input_0.pb" "$work/suite/more_inputs/test_data_set_0/input_1.pb"
new_case more_outputs && cp "$good/test_data_set_0/output_0.pb" "$work/suite/more_outputs/test_data_set_0/output_1.pb"
new_case cut_tensor && head -c 20 "$good/test_data_set_0/input_0.pb" >"$work/suite/cut_tensor/test_data_set_0/input_0.pb"
new_case cut_model && head -c 100 "$good/model.onnx" >"$work/suite/cut_model/model.onnx"
new_case second_set && cp -r "$work/suite/value/test_data_set_0" "$work/suite/second_set/test_data_set_1"

status=0
"$RLX" test "$work/suite" --ops "$package" >"$work/out" || status=$?
[ "$status" -eq 1 ] || fail "exit code $status"$'\n'"$(cat "$work/out")"
[ "$(tail -1 "$work/out")" = "2 passed, 12 failed, 0 skipped" ] || fail "the last line: $(cat "$work/out")"
has() { grep -qE -- "^FAIL $1: .*$2" "$work/out" || fail "no failure '$2' of $1 in:"$'\n'"$(cat "$work/out")"; }
has value "output 'y': element \[0,0\] is .* and should be 9 \(15 of 15 elements differ\)"
has shape "shape is \[5,3\] and should be \[3\]"
has dtype "dtype is float and should be int64"
has input_rank "x"
has no_output "output_0.pb is missing"
has no_input "input_0.pb is missing"
has no_data "no test_data_set_0"
has more_inputs "input_1.pb: the model has only 1 inputs"
has more_outputs "output_1.pb: the model has only 1 outputs"
has cut_tensor ""
has cut_model ""
has second_set "data set 1: output 'y'"

# The same in one process after another, as JSON, and by name.
status=0
"$RLX" test "$work/suite" --ops "$package" --jobs 1 --json >"$work/json" || status=$?
[ "$status" -eq 1 ] || fail "exit code $status with --json"
python3 - "$work/json" <<'P'
import json, sys
result = json.load(open(sys.argv[1]))
assert (result["passed"], result["failed"], result["skipped"]) == (2, 12, 0), result
assert [case["name"] for case in result["cases"] if case["passed"]] == ["also_good", "good"], result
assert all(case["message"] for case in result["cases"] if not case["passed"]), result
P
expect 0 '2 passed, 0 failed, 0 skipped' "$RLX" test "$work/suite" --ops "$package" --filter '*good'
expect 0 '1 passed, 0 failed, 0 skipped' "$RLX" test "$work/suite/good/" --ops "$package"
expect_failure 1 'no test case' "$RLX" test "$work/suite" --filter nothing
mkdir "$work/empty"
expect_failure 1 'no test case' "$RLX" test "$work/empty"

# Tolerances: a case's own line, the default line, a line that is wrong.
near=$work/near/near
mkdir -p "$work/near" && cp -r "$work/suite/good" "$near"
python3 - "$near/test_data_set_0/output_0.pb" <<'P'
import struct, sys
data = bytearray(open(sys.argv[1], "rb").read())
at = data.index(b"\x4a\x3c") + 2 if b"\x4a\x3c" in data else data.index(b"J<") + 2
for i in range(15):
    value, = struct.unpack_from("<f", data, at + 4 * i)
    struct.pack_into("<f", data, at + 4 * i, value * 1.01)
open(sys.argv[1], "wb").write(data)
P
expect 1 '0 passed, 1 failed, 0 skipped' "$RLX" test "$near" --ops "$package"
printf 'default 0.1 0\n' >"$work/tolerances.txt"
expect 0 '1 passed' "$RLX" test "$near" --ops "$package"
printf 'near 0.1 0\ndefault 0 0\n' >"$work/near/tolerances.txt"
expect 0 '1 passed' "$RLX" test "$near" --ops "$package"
printf 'near 0.001 0\ndefault 1 1\n' >"$near/tolerances.txt"
expect 1 '1 failed' "$RLX" test "$near" --ops "$package"
printf 'near much\n' >"$near/tolerances.txt"
expect_failure 1 'tolerances.txt:1' "$RLX" test "$near" --ops "$package"

# A contested case: its values are not compared, its shape is.
printf '# comment\nvalue its values are random\nshape too\n' >"$work/contested.txt"
expect 0 '0 passed, 0 failed, 1 skipped' "$RLX" test "$work/suite/value" --ops "$package" --contested "$work/contested.txt"
expect 1 '2 passed, 11 failed, 1 skipped' "$RLX" test "$work/suite" --ops "$package" --contested "$work/contested.txt"
printf 'value\n' >"$work/contested.txt"
expect_failure 1 'contested.txt:1' "$RLX" test "$work/suite" --ops "$package" --contested "$work/contested.txt"
