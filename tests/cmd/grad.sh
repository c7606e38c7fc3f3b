#!/bin/bash
# rlx grad: models of real layers against PyTorch's gradients, tangents, and a custom op whose sizes depend on the data.
set -euo pipefail
source "$SRC/tests/cmd/_check.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# An MLP, a CNN, a transformer block and an LSTM, with what PyTorch gives: tools/torch_grads.py made them.
cp "$SRC/tests/grad/tolerances.txt" "$work/"
for case in mlp cnn transformer lstm; do
    mkdir "$work/$case"
    cp -r "$SRC/tests/grad/$case/test_data_set_0" "$work/$case/"
    options=(--loss "$(head -1 "$SRC/tests/grad/$case/wrt.txt")")
    while read -r name; do options+=(--wrt "$name"); done < <(tail -n +2 "$SRC/tests/grad/$case/wrt.txt")
    expect 0 '' "$RLX" grad "$SRC/tests/grad/$case/model.onnx" "${options[@]}" --only --output "$work/$case/model.onnx"
done
expect 0 '4 passed, 0 failed, 0 skipped' "$RLX" test "$work"

# Three outputs, an optional input, a size known only after running: forward and backward, from a package.
package=$BUILD/packages/librlx-demo.so
model=$SRC/tests/grad/keep.rlx
expect 0 'float[2]' "$RLX" run "$model" --ops "$package" --input x="$SRC/tests/grad/keep_x.npy"
expect 0 '' "$RLX" grad "$model" --ops "$package" --loss loss --wrt x --output "$work/keep.onnx"
expect 0 '[0, 0, 6, 14]' "$RLX" run "$work/keep.onnx" --ops "$package" --input x="$SRC/tests/grad/keep_x.npy"

# Forward mode: the tangent of the loss along ones is the sum of the gradient.
expect 0 '' "$RLX" grad "$model" --ops "$package" --forward --loss loss --wrt x --only --output "$work/ahead.onnx"
expect 0 'loss_tangent  float[]' "$RLX" run "$work/ahead.onnx" --ops "$package" --input x="$SRC/tests/grad/keep_x.npy" \
    --input x_tangent=1

# What goes wrong is said in a line.
expect_failure 1 "the model has no value 'nowhere'" "$RLX" grad "$model" --ops "$package" --loss nowhere --wrt x \
    --output "$work/x.onnx"
expect_failure 1 'floats only have derivatives' "$RLX" grad "$model" --ops "$package" --loss positions --wrt x \
    --output "$work/x.onnx"
expect_failure 2 '--output' "$RLX" grad "$model" --loss loss --wrt x
expect_failure 2 '--wrt' "$RLX" grad "$model" --ops "$package" --loss loss --output "$work/x.onnx"
