#!/bin/bash
# A package whose kernel crashes, hangs or exits fails only the case that called it.
set -euo pipefail
source "$SRC/tests/cmd/_check.sh"
if [ -n "${SANITIZE:-}" ]; then
    echo "skipped: sanitizers turn crashes into their own reports"
    exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/suite"
for name in a_good b_bad c_good; do cp -r "$SRC/examples/custom_op" "$work/suite/$name"; done
# The bad case's input has four rows.
python3 - "$work/suite/b_bad/test_data_set_0/input_0.pb" <<'P'
import struct, sys
open(sys.argv[1], "wb").write(b"\x08\x04\x08\x04\x10\x01\x4a\x40" + struct.pack("<16f", *range(16)))
P

# package NAME STATEMENT: the example's package with a statement run for tensors of four rows.
package() {
    sed "s|^static void softsign(.*|&\n  if (((rlx_ctx *)arg)->inputs[0].dims[0] == 4) { $2 }|; s|#include <rlx/extend.h>|&\n#include <stdlib.h>\n#include <unistd.h>|" \
        "$SRC/examples/custom_op/acme.c" >"$work/$1.c"
    cc -std=c17 -D_GNU_SOURCE -fPIC -shared -I "$SRC/include" "$work/$1.c" -o "$work/librlx-$1.so"
}

package crash 'abort();'
package hang 'for (;;) sleep(1);'
package leave '_exit(7);'
for jobs in 1 3; do
    expect 1 'FAIL b_bad: crashed with signal 6' "$RLX" test "$work/suite" --jobs $jobs --ops "$work/librlx-crash.so"
    expect 1 '2 passed, 1 failed, 0 skipped' "$RLX" test "$work/suite" --jobs $jobs --ops "$work/librlx-crash.so"
    expect 1 'FAIL b_bad: the process ended with exit code 7' "$RLX" test "$work/suite" --jobs $jobs --ops "$work/librlx-leave.so"
done
expect 1 'FAIL b_bad: still running after 2 s' "$RLX" test "$work/suite" --timeout 2 --ops "$work/librlx-hang.so"
