#!/bin/bash
# Packages that are refused, with the reason; two versions of one package in a process; packages in any order.
set -euo pipefail
source "$SRC/tests/cmd/_check.sh"
if [ -n "${SANITIZE:-}" ]; then
    echo "skipped: it builds packages of its own, without sanitizers"
    exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# package FILE NAME VERSION: stdin is C before the package record, with `static rlx_status all(rlx_registry *r)`.
package() {
    { echo '#include <rlx/extend.h>'; cat; [ "$2" = - ] || echo "RLX_PACKAGE(\"$2\", \"$3\", all);"; } >"$work/$1.c"
    cc -std=c17 -O1 -fPIC -shared -I "$SRC/include" "$work/$1.c" -o "$work/$1.so" -L "$BUILD" -lrlx
}
refused() {
    expect_failure 1 "$2" "$RLX" ops --ops "$work/$1.so"
}
ports='static rlx_status one(rlx_ctx *ctx) { for (int64_t i = 0; i < ctx->outputs[0].count; i++) ((float *)ctx->outputs[0].data)[i] = MARK; return RLX_OK; }
static const rlx_port in[] = {{"x", "T", RLX_SET(RLX_FLOAT), 0, 0}, {0}}, out[] = {{"y", "T", 0, 0, 0}, {0}};
#define OP(n) {.struct_size = sizeof(rlx_op), .name = n, .inputs = in, .outputs = out, .eval = one}'

# ---- refused ----

echo 'no library' >"$work/text.so"
refused text 'text.so'
package symbol - - <<<'int nothing;'
refused symbol 'it exports no rlx_package_entry'
package abi - - <<'X'
static rlx_status all(rlx_registry *r) { (void)r; return RLX_OK; }
RLX_API extern const rlx_package rlx_package_entry;
const rlx_package rlx_package_entry = {sizeof(rlx_package), RLX_ABI_VERSION + 1, "abi", "1", all};
X
refused abi 'built for ABI 2, this library has ABI 1'
package small - - <<'X'
RLX_API extern const rlx_package rlx_package_entry;
const rlx_package rlx_package_entry = {8, RLX_ABI_VERSION, "small", "1", 0};
X
refused small 'its package record has 8 bytes'
package large - - <<'X'
RLX_API extern const rlx_package rlx_package_entry;
const rlx_package rlx_package_entry = {1 << 20, RLX_ABI_VERSION, "large", "1", 0};
X
refused large 'its package record says 1048576 bytes'
package empty - - <<'X'
RLX_API extern const rlx_package rlx_package_entry;
const rlx_package rlx_package_entry = {sizeof(rlx_package), RLX_ABI_VERSION, 0, "1", 0};
X
refused empty 'lacks name, version or register function'
package malformed bad 1 <<X
#define MARK 1
$ports
static const rlx_op good = OP("bad.good"), op = OP("bad.op\n");
static rlx_status all(rlx_registry *r) { rlx_status s = rlx_register_op(r, &good, 0, 0); return s ? s : rlx_register_op(r, &op, 0, 0); }
X
refused malformed "package 'bad'"
package builtin shadow 1 <<X
#define MARK 1
$ports
static const rlx_op op = OP("shadow.op");
static const rlx_cpu_kernel k = {sizeof k, {.op = "shadow.op", .name = "k"}, one};
static rlx_status all(rlx_registry *r) {
  rlx_status s = rlx_register_op(r, &op, 0, 0);
  if (!s) s = rlx_register_cpu_kernel(r, &k, 0, 0);
  return s ? s : rlx_register_cpu_kernel(r, &k, 0, 0);
}
X
refused builtin "kernel 'k' of op 'shadow.op' for cpu is already registered by shadow ($work/builtin.so)"

# ---- two versions of one package, in either order; duplicates name both files ----

for v in 1 2; do
    package twin$v twin $v <<X
#define MARK $v
$ports
static const rlx_op op = OP("twin.op");
static rlx_status all(rlx_registry *r) { return rlx_register_op(r, &op, 0, 0); }
X
    package order$v order$v 1 <<X
#define MARK $v
$ports
static const rlx_op op = OP("order$v.op");
static rlx_status all(rlx_registry *r) { return rlx_register_op(r, &op, 0, 0); }
X
done
cat >"$work/two.rlx" <<'X'
graph (float[2] x) => (float[2] a, float[2] b) { a = order1.op (x) b = order2.op (x) }
X
for order in "1 2" "2 1"; do
    read -r first second <<<"$order"
    expect 0 '' "$RLX" run "$work/two.rlx" --ops "$work/order$first.so" --ops "$work/order$second.so"
done
expect_failure 1 "op 'twin.op' version 1 is already registered by twin ($work/twin1.so); twin ($work/twin2.so) may not" \
    "$RLX" ops --ops "$work/twin1.so" --ops "$work/twin2.so"

# In one process, each in a registry of its own, loaded and taken away in any order while the other runs.
cat >"$work/host.c" <<'X'
#include <rlx/extend.h>
#include <stdio.h>
static float run(rlx_session *s) {
  rlx_binding *b = 0;
  rlx_tensor *x = 0, *y = 0;
  int64_t two = 2;
  float v = -1;
  if (rlx_binding_create(s, &b) || rlx_tensor_create(RLX_FLOAT, 1, &two, &x) || rlx_binding_input(b, "x", x, 0) ||
      rlx_run(b, 0) || rlx_binding_get(b, "y", &y))
    printf("%s\n", rlx_error_message());
  else
    v = *(float *)rlx_tensor_data(y);
  rlx_tensor_destroy(x), rlx_tensor_destroy(y), rlx_binding_destroy(b);
  return v;
}
static rlx_session *make(rlx_registry *r) {
  rlx_graph *g = 0;
  rlx_session *s = 0;
  rlx_type t = {.dtype = RLX_FLOAT, .rank = 1, .dims = {2}};
  rlx_session_options o = RLX_SESSION_OPTIONS_INIT;
  o.registry = r;
  if (rlx_graph_create(r, &g)) return 0;
  rlx_value *x = rlx_graph_input(g, "x", &t);
  rlx_graph_output(g, rlx_graph_op(g, "twin.op", 0, 0, &x, 1), "y");
  if (rlx_graph_finish(g) || rlx_session_create(g, &o, &s)) printf("%s\n", rlx_error_message());
  rlx_graph_destroy(g);
  return s;
}
int main(int argc, char **argv) {
  rlx_registry *a = 0, *b = 0;
  if (argc < 3 || rlx_registry_create(&a) || rlx_registry_create(&b)) return 2;
  if (rlx_load_package(a, argv[1]) || rlx_load_package(b, argv[2])) return printf("%s\n", rlx_error_message()), 1;
  if (rlx_load_package(a, argv[1])) return printf("again: %s\n", rlx_error_message()), 1;
  rlx_session *s = make(a), *t = make(b);
  if (!s || !t) return 1;
  printf("%g %g", run(s), run(t));
  rlx_registry_destroy(a); /* the session keeps what it resolved */
  printf(" %g %g", run(s), run(t));
  rlx_session_destroy(s);
  printf(" %g\n", run(t));
  rlx_registry_destroy(b);
  rlx_session_destroy(t);
  return 0;
}
X
cc -std=c17 -Wno-unused-result -I "$SRC/include" "$work/host.c" -o "$work/host" -L "$BUILD" -lrlx -Wl,-rpath,"$BUILD"
expect 0 '1 2 1 2 2' "$work/host" "$work/twin1.so" "$work/twin2.so"
expect 0 '2 1 2 1 1' "$work/host" "$work/twin2.so" "$work/twin1.so"
