#!/bin/bash
# The cost of adding: a toy elementwise op is one row, a toy op one file, a toy kernel one file; nothing else is edited.
# The three are added to a copy of the tree, which is built and run, and taken away again. The copy stays in the build
# folder, so that the next time only what changed is compiled.
set -euo pipefail
source "$SRC/tests/cmd/_check.sh"
if [ -n "${SANITIZE:-}" ]; then
    echo "skipped: it builds a tree of its own, without sanitizers"
    exit 77
fi
tree=$BUILD/toy
mkdir -p "$tree"
for part in CMakeLists.txt LICENSE LICENSES.md cmake include src; do
    rm -rf "${tree:?}/$part"
    cp -a "$SRC/$part" "$tree/$part"
done
generator=()
if command -v ninja >/dev/null; then generator=(-G Ninja); fi

build() {
    cmake --build "$tree/build" --target rlx_command -j 2 >"$tree/log" 2>&1 || fail "the toy tree does not build"$'\n'"$(tail -30 "$tree/log")"
}

# ---- what an author writes ----

mkdir -p "$tree/src/backend/cpu/kernels"
cat >>"$tree/src/ops/elementwise.def" <<'X'
X(ToyCube, 1, 1, XY, FLOATS, VALUE, 2, (), x * x * x, "3 * g * x * x", "", "")
X
cat >"$tree/src/ops/toy.c" <<'X'
/* toy.c — toy.difference(x)[i] = x[i + 1] - x[i] of a vector. */
#include "ir/module.h"

static rlx_status infer(rlx_infer *ctx) {
  const rlx_type *x = rlx_infer_input(ctx, 0);
  if (x->rank != RLX_UNKNOWN && (x->rank != 1 || x->dims[0] == 0))
    return rlx_fail(ctx, RLX_INVALID, "toy.difference: rank %d, or no element", x->rank);
  int64_t count = x->rank == 1 && x->dims[0] > 0 ? x->dims[0] - 1 : RLX_UNKNOWN;
  rlx_infer_set(ctx, 0, 1, &count);
  return RLX_OK;
}

static rlx_status eval(rlx_ctx *ctx) {
  const float *x = ctx->inputs[0].data;
  float *y = ctx->outputs[0].data;
  for (int64_t i = 0; i < ctx->outputs[0].count; i++) y[i] = x[i + 1] - x[i];
  return RLX_OK;
}

static const rlx_port in[] = {{"x", "T", RLX_SET(RLX_FLOAT), 0, 0}, {0}}, out[] = {{"y", "T", 0, 0, 0}, {0}};
static const rlx_op op = {sizeof op, "toy.difference", .inputs = in, .outputs = out, .traits = RLX_PURE, .infer = infer, .eval = eval};
static const rlx_op *const list[] = {&op, NULL};
const rlx_module ops_toy = {.ops = list};
X
cat >"$tree/src/backend/cpu/kernels/toy.c" <<'X'
/* toy.c — toy.difference on the CPU, told from its reference by adding a half. */
#include "ir/module.h"

static rlx_status run(rlx_ctx *ctx) {
  const float *x = ctx->inputs[0].data;
  float *y = ctx->outputs[0].data;
  for (int64_t i = 0; i < ctx->outputs[0].count; i++) y[i] = x[i + 1] - x[i] + 0.5f;
  return RLX_OK;
}

static const rlx_cpu_kernel kernel = {sizeof kernel, {"toy.difference", .name = "toy-kernel"}, run};
static const rlx_cpu_kernel *const list[] = {&kernel, NULL};
const rlx_module cpu_toy = {.kernels = list};
X

# ---- nothing else is edited ----

differing=$(diff -rq "$SRC/src" "$tree/src" || true)
[ "$(wc -l <<<"$differing")" -eq 3 ] || fail "more is edited than it should take: $differing"
[ "$(diff "$SRC/src/ops/elementwise.def" "$tree/src/ops/elementwise.def" | grep -c '^[<>]')" -eq 1 ] || fail "more than one row"
for part in CMakeLists.txt cmake include; do diff -rq "$SRC/$part" "$tree/$part" || fail "$part is edited"; done

# ---- it runs ----

cmake -S "$tree" -B "$tree/build" "${generator[@]}" -DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_FLAGS_DEBUG=-O0 \
    -DRLX_TESTS=OFF -DRLX_ONEDNN=OFF >"$tree/log" 2>&1 || fail "the toy tree does not configure"$'\n'"$(tail -30 "$tree/log")"
build
rlx=$tree/build/rlx
cat >"$tree/toy.rlx" <<'X'
<opset_import: ["" : 17, "toy" : 1]>
toy (float[4] x) => (float[4] cube, float[3] difference)
{
   cube = ToyCube (x)
   difference = toy.difference (x)
}
X
python3 - "$tree/x.npy" <<'P'
import struct, sys
header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (4,), }"
header += b" " * (117 - len(header)) + b"\n"
open(sys.argv[1], "wb").write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + struct.pack("<4f", 1, -2, 0.5, 3))
P

# run_toy OUTPUT VALUE…: one run, and the floats its output must hold.
run_toy() {
    local output=$1
    shift
    rm -rf "$tree/out"
    expect 0 "" "$rlx" run "$tree/toy.rlx" --input "x=$tree/x.npy" --output "$tree/out"
    python3 - "$tree/out/$output.npy" "$@" <<'P' || fail "values of $output"
import struct, sys
data, wanted = open(sys.argv[1], "rb").read(), [float(v) for v in sys.argv[2:]]
found = struct.unpack(f"<{len(wanted)}f", data[-4 * len(wanted):])
sys.exit(f"{found} instead of {wanted}" if any(a != b for a, b in zip(found, wanted)) else 0)
P
}

run_toy cube 1 -8 0.125 27
run_toy difference -2.5 3 3
expect 0 toy-kernel "$rlx" explain "$tree/toy.rlx"
"$rlx" ops --json >"$tree/ops.json"
python3 - "$tree/ops.json" <<'P' || fail "the toy elementwise op has no derivative"
import json, sys
def rows(value):
    if isinstance(value, dict):
        yield value
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from rows(item)
cube = [r for r in rows(json.load(open(sys.argv[1]))) if "onnx.ToyCube" in r.values()]
sys.exit(0 if cube and cube[0].get("vjp") else str(cube))
P

# ---- and goes: first the kernel, then the op, then an op of rlx's own ----

rm "$tree/src/backend/cpu/kernels/toy.c"
build
run_toy difference -3 2.5 2.5
rm "$tree/src/ops/toy.c" "$tree/src/ops/gather_nd.c"
build
expect 1 "no such op" "$rlx" run "$tree/toy.rlx" --input "x=$tree/x.npy"
echo "ok"
