#!/bin/sh
# Runs a real model with a custom op in it and shows what ran where. Needs `make setup models build`.
set -eu
cd "$(dirname "$0")/.."
build/venv/bin/python tools/demo_model.py
package=build/packages/librlx-acme.so
echo "A voice activity detector, with the op of examples/custom_op/acme.c as a limiter before it, on a frame of speech:"
build/rlx run build/demo/model.onnx --ops $package --explain \
    --input audio=build/demo/test_data_set_1/input_0.pb \
    --input state=build/demo/test_data_set_1/input_1.pb \
    --input sr=build/demo/test_data_set_1/input_2.pb | grep -v '^    ' # the nodes inside the model's If are many
echo
echo "All recorded frames, compared with the expected outputs:"
build/rlx test build/demo --ops $package
