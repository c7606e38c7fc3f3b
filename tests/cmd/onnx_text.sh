#!/bin/bash
# What onnx's own printer writes is a model as good as the binary file: the same cases, their model.onnx turned to text.
set -euo pipefail
source "$SRC/tests/cmd/_check.sh"
python=$SRC/build/venv/bin/python
if ! "$python" -c 'import onnx.printer' 2>/dev/null; then
    echo "skipped: no onnx in build/venv"
    exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -r "$SRC/tests/models" "$work/models"
for name in test_squeezenet test_shufflenet; do
    if [ -d "$SRC/build/onnx-suite/light/$name" ]; then cp -r "$SRC/build/onnx-suite/light/$name" "$work/models/"; fi
done
chmod -R u+w "$work/models"
find "$work/models" -name model.onnx >"$work/list"
"$python" - "$work/list" <<'P'
import sys
import onnx.printer
for path in open(sys.argv[1], encoding="utf-8").read().split():
    text = onnx.printer.to_text(onnx.load(path))
    open(path, "w", encoding="utf-8").write(text)
P
count=$(wc -l <"$work/list")
expect 0 "$count passed, 0 failed" "$RLX" test "$work/models"
