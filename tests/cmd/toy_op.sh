#!/bin/bash
# Adding an op touches one place: a row for an elementwise op, one file for any other, one file for a kernel. A copy of
# the sources gets one of each, is built, and runs a model that uses them.
set -euo pipefail
source "$SRC/tests/cmd/_check.sh"
if [ -n "${SANITIZE:-}" ]; then
    echo "skipped: builds the library once more, which sanitizers do not change"
    exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/src"
(cd "$SRC" && git ls-files -co --exclude-standard -- CMakeLists.txt LICENSE LICENSES.md cmake include src |
    tar -c -T - -f -) | tar -x -C "$work/src"
cd "$work/src"

echo 'X(Twice, 1, 1, IO, FLOATS, VALUE, 1, (), x + x, "g + g", "", "")' >>src/ops/elementwise.def

cat >src/ops/toy.c <<'C'
// toy.c — onnx.Toy(x) = x + 1.
#include "ir/module.h"

static rlx_status infer(rlx_infer *ctx) {
  rlx_infer_like(ctx, 0, 0);
  return RLX_OK;
}

static rlx_status eval(rlx_ctx *ctx) {
  const float *x = ctx->inputs[0].data;
  float *y = ctx->outputs[0].data;
  for (int64_t i = 0; i < ctx->outputs[0].count; i++) y[i] = x[i] + 1;
  return RLX_OK;
}

static const rlx_port inputs[] = {{"x", "T", RLX_SET(RLX_FLOAT), 0, 0}, {0}};
static const rlx_port outputs[] = {{"y", "T", 0, 0, 0}, {0}};
static const rlx_op toy = {.struct_size = sizeof toy, .name = "onnx.Toy", .version = 1, .inputs = inputs,
                           .outputs = outputs, .traits = RLX_PURE, .infer = infer, .eval = eval};
extern const rlx_module ops_toy;
const rlx_module ops_toy = {(const rlx_op *const[]){&toy, NULL}, NULL};
C

cat >src/backend/cpu/kernels/toy.c <<'C'
// toy.c — a CPU kernel for onnx.Toy.
#include "ir/module.h"

static rlx_status run(rlx_ctx *ctx) {
  const float *x = ctx->inputs[0].data;
  float *y = ctx->outputs[0].data;
  for (int64_t i = 0; i < ctx->outputs[0].count; i++) y[i] = 1 + x[i];
  return RLX_OK;
}

static const rlx_cpu_kernel toy = {.struct_size = sizeof toy, .head = {.op = "onnx.Toy", .name = "toy-loop"}, .run = run};
extern const rlx_module cpu_toy;
const rlx_module cpu_toy = {NULL, (const rlx_cpu_kernel *const[]){&toy, NULL}};
C

cat >"$work/toy.rlx" <<'T'
<ir_version: 8, opset_import: ["" : 17]>
toys (float[3] x) => (float[3] y) {
  twice = Twice (x)
  y = Toy (twice)
}
T

export CCACHE_BASEDIR=$work CCACHE_NOHASHDIR=1
cmake -S . -B "$work/build" -DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_FLAGS_DEBUG=-O0 -DRLX_TESTS=OFF \
    $(command -v ninja >/dev/null && echo -G Ninja) >"$work/log"
cmake --build "$work/build" --target rlx_command -j 2 >>"$work/log" 2>&1 || { cat "$work/log"; exit 1; }

toy=$work/build/rlx
expect 0 Twice "$toy" ops
expect 0 Toy "$toy" ops
expect 0 toy-loop "$toy" explain "$work/toy.rlx"
printf '1\n2\n3\n' | python3 -c '
import struct, sys
values = [float(word) for word in sys.stdin.read().split()]
header = "{\"descr\": \"<f4\", \"fortran_order\": False, \"shape\": (%d,), }" % len(values)
header += " " * (63 - (10 + len(header)) % 64) + "\n"
sys.stdout.buffer.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() +
                        struct.pack("<%df" % len(values), *values))' >"$work/x.npy"
expect 0 '' "$toy" run "$work/toy.rlx" --input "x=$work/x.npy" --output "$work/results"
python3 - "$work/results/y.npy" <<'P' || fail "wrong result"
import struct, sys
data = open(sys.argv[1], "rb").read()
sys.exit(struct.unpack("<3f", data[-12:]) != (3.0, 5.0, 7.0))
P
