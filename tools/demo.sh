#!/bin/sh
# Runs a real model, a voice activity detector, on recorded inputs, and shows what ran where. Needs `make build models`.
set -eu
cd "$(dirname "$0")/.."
model=build/models/silero-vad
echo "A voice activity detector on one frame of speech:"
build/rlx run $model/model.onnx --explain \
    --input input=$model/test_data_set_1/input_0.pb \
    --input state=$model/test_data_set_1/input_1.pb \
    --input sr=$model/test_data_set_1/input_2.pb
echo
echo "And on all its recorded frames, compared with the expected results:"
build/rlx test $model
