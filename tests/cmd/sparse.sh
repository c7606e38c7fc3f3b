#!/bin/bash
# The package sparse from the command: a text model found by its domain, every op through check-op, and a build of it without
# KLU and CHOLMOD.
set -euo pipefail
source "$SRC/tests/cmd/_check.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cat >"$work/model.txt" <<'M'
<ir_version: 10, opset_import: ["" : 21, "sparse" : 1]>
chain (double[N] b) => (x) <double[10] v = {4, -1, -1, 4, -1, -1, 4, -1, -1, 4},
  int64[10] c = {0, 1, 0, 1, 2, 1, 2, 3, 2, 3}, int64[5] p = {0, 2, 5, 8, 10}>
{ x = sparse.lu_solve (v, c, p, b) }
M
expect 0 'output x  double[4]  min 0.363636  max 0.454545' "$RLX" run "$work/model.txt" --input b=1 --dim N=4
expect 1 'b has 5 rows, not 4' "$RLX" run "$work/model.txt" --dim N=5

ops=$("$RLX" ops --ops sparse | sed -n 's/^\(sparse\.[a-z_]*\).*/\1/p' | grep -v '^sparse.counters$')
[ "$(echo "$ops" | wc -l)" -ge 15 ] || fail "only these ops: $ops"
for op in $ops; do
    expect 0 '1 passed, 0 failed, 0 not tested' "$RLX" check-op "$op" --ops sparse
done

# What the reference refuses, RLX_DEBUG=check passes over and says so.
cat >"$work/large.txt" <<'M'
<ir_version: 10, opset_import: ["" : 21, "sparse" : 1]>
large (double[600] v, double[600] b, int64[600] c, int64[601] p) => (x) { x = sparse.cholesky_solve (v, c, p, b) }
M
python3 - "$work" <<'P'
import struct
import sys

def write(name, values):
    header = repr({"descr": "<i8", "fortran_order": False, "shape": (len(values),)}).ljust(117) + "\n"
    with open(f"{sys.argv[1]}/{name}.npy", "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode())
        file.write(struct.pack(f"<{len(values)}q", *values))

write("c", range(600))
write("p", range(601))
P
if [[ $("$RLX" explain "$work/large.txt") != *"this build has no"* ]]; then
    RLX_DEBUG=check expect 0 'is passed over: 600 unknowns' "$RLX" run "$work/large.txt" --input v=2 --input c="$work/c.npy" \
        --input p="$work/p.npy"
fi

# Without the libraries: small systems by the reference, larger ones refused by name.
if [ -z "${SANITIZE:-}" ]; then
    cc -std=c17 -D_GNU_SOURCE -O1 -fPIC -shared -fvisibility=hidden -I "$SRC/include" "$SRC"/packages/sparse/*.c \
        -o "$work/librlx-sparse.so" -lm
    export RLX_PACKAGE_PATH=$work
    expect 0 'this build has no KLU' "$RLX" explain "$work/model.txt"
    expect 0 'output x  double[4]  min 0.363636  max 0.454545' "$RLX" run "$work/model.txt" --input b=1 --dim N=4
    expect 1 'larger systems need CHOLMOD, which this build does not have' "$RLX" run "$work/large.txt" \
        --input c="$work/c.npy" --input p="$work/p.npy"
fi
