#!/bin/bash
# Every operator version of the installed onnx package is an op here, with its attributes, inputs, outputs and types.
set -euo pipefail
source "$SRC/tests/cmd/_check.sh"
python=$SRC/build/venv/bin/python
if ! "$python" -c 'import onnx' 2>/dev/null; then
    echo "skipped: no onnx in build/venv"
    exit 77
fi
expect 0 " 0 differences" "$python" "$SRC/tools/schemas.py" "$RLX"
