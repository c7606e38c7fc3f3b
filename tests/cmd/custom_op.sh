#!/bin/bash
# The example's custom op: at most thirty lines and one header, as a package, inside an ONNX model of its own domain.
set -euo pipefail
source "$SRC/tests/cmd/_check.sh"
source_file=$SRC/examples/custom_op/acme.c
package=$BUILD/packages/librlx-acme.so
model=$SRC/examples/custom_op

[ "$(wc -l <"$source_file")" -le 30 ] || fail "acme.c has more than 30 lines"
[ "$(grep -c '#include' "$source_file")" -eq 1 ] || fail "acme.c includes more than one header"

# The README shows this very file.
diff <(sed -n '/^```c$/,/^```$/{p;/^```$/q}' "$SRC/README.md" | sed '1d;$d') "$source_file" || fail "README.md shows another acme.c"

# Named by file; found by name; found by its domain.
expect 0 '1 passed, 0 failed, 0 skipped' "$RLX" test "$model" --ops "$package"
export RLX_PACKAGE_PATH=$BUILD/packages
expect 0 '1 passed, 0 failed, 0 skipped' "$RLX" test "$model" --ops acme
expect 0 'output y  float[2,3]' "$RLX" run "$model/model.onnx" --ops acme --dim N=2
expect 0 '1 passed, 0 failed, 0 skipped' "$RLX" test "$model"
unset RLX_PACKAGE_PATH

# Its own kernel runs it; without the package the op and node are named.
expect 0 'threads' "$RLX" explain "$model/model.onnx" --ops "$package"
expect 0 'acme.softsign' "$RLX" ops --ops "$package"
expect 1 'acme.softsign' "$RLX" run "$model/model.onnx"
expect 1 'acme.softsign' "$RLX" check "$model/model.onnx"

# As other people would build it: the source file, the header folder, nothing else.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [ -z "${SANITIZE:-}" ]; then
    cc -std=c17 -O2 -Wall -Wextra -Werror -fPIC -shared -I "$SRC/include" "$source_file" -o "$work/librlx-mine.so"
    expect 0 '1 passed, 0 failed, 0 skipped' "$RLX" test "$model" --ops "$work/librlx-mine.so"
fi

# Inside a real model, where its wheel was fetched.
if [ -d "$SRC/build/models/silero-vad" ] && [ -x "$SRC/build/venv/bin/python" ]; then
    "$SRC/build/venv/bin/python" "$SRC/tools/demo_model.py"
    expect 0 ' 0 failed, 0 skipped' "$RLX" test "$SRC/build/demo" --ops "$package"
fi
