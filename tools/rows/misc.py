"""Rows of signal ops, optimisers' neighbours, and values that sequences and optionals hold on their way."""

import numpy as np
from onnx import helper

from row import Family, node_text

I = np.array
LOOSE = (1e-4, 1e-5)


def signals(f):
    for n in (8, 7, 1):
        x = f.normal(1, n, 1)
        y = np.fft.fft(x[..., 0].astype(np.float64), axis=1)
        f.row("DFT", [x], np.stack([y.real, y.imag], -1).astype(np.float32), opset=20, tolerance=LOOSE)
        y = np.fft.rfft(x[..., 0].astype(np.float64), axis=1)
        f.row("DFT", [x, None, I(1)], np.stack([y.real, y.imag], -1).astype(np.float32), opset=20, onesided=1, tolerance=LOOSE)
        z = f.normal(2, n, 2)
        c = (z[..., 0] + 1j * z[..., 1]).astype(np.complex128)
        for inverse in (0, 1):
            for length in (n, 5, 12):
                y = (np.fft.ifft if inverse else np.fft.fft)(c, length, axis=1)
                f.row("DFT", [z, I(length), I(-2)], np.stack([y.real, y.imag], -1).astype(np.float32), opset=20, inverse=inverse,
                      tolerance=LOOSE)
        y = np.fft.fft(c, axis=0)
        f.row("DFT", [z, None, I(0)], np.stack([y.real, y.imag], -1).astype(np.float32), opset=20, tolerance=LOOSE)
    x = f.normal(1, 16, 1)
    f.row("STFT", [x, I(4), None, I(8)], opset=17, oracle="ref", tolerance=LOOSE)
    f.row("STFT", [x, I(4), np.hanning(8).astype(np.float32)], opset=17, oracle="ref", tolerance=LOOSE, onesided=0)
    k = np.arange(10)
    for periodic in (0, 1):
        for size in (10, 1, 2):
            for op in ("HannWindow", "HammingWindow", "BlackmanWindow"):
                if size == 1 and not periodic:
                    continue
                f.row(op, [I(size)], opset=17, oracle="ref" , periodic=periodic, output_datatype=11 if size == 2 else 1)
    f.row("HannWindow", [I(-1)], fails="-1", opset=17)
    f.row("MelWeightMatrix", [I(4), I(16), I(8000), np.float32(0), np.float32(4000)], opset=17, tolerance=LOOSE)


def linear_attention(f):
    q, k, v = f.normal(1, 3, 8, scale=0.4), f.normal(1, 3, 8, scale=0.4), f.normal(1, 3, 8, scale=0.4)
    f.row("LinearAttention", [q, k, v], opset=27, outputs=2, oracle="ref", q_num_heads=2, kv_num_heads=2, update_rule="linear",
          tolerance=LOOSE)
    x = f.normal(2, 6)
    f.row("SwiGLU", [x, f.normal(2, 6)], opset=28, oracle="ref", tolerance=LOOSE)
    for a, b in ((np.float32, np.int32), (np.int32, np.float32), (np.float64, np.int64), (np.uint8, np.int8), (np.float16, np.uint16)):
        values = I([1, 2, 100]).astype(a)
        number = {np.float32: 1, np.int32: 6, np.int64: 7, np.int8: 3, np.uint16: 4}[b]
        f.row("BitCast", [values], values.view(b), opset=26, to=number)


def chains(f):
    """Several nodes: sequences and optionals between tensors."""

    def chain(given, outputs, want, *nodes, opset=19):
        made, texts = [], []
        for op, inputs, results, attrs in nodes:
            made.append(helper.make_node(op, inputs, results, **attrs))
            texts.append(node_text(op, inputs, results, attrs))
        f.add(made, texts, given, outputs, want, opset)

    x, y = f.normal(2, 3), f.normal(2, 3)
    chain({"a": x, "b": y}, ["y0", "y1", "y2"], [y, I(2), np.concatenate([x, y])],
          ("SequenceConstruct", ["a", "b"], ["s"], {}), ("SequenceAt", ["s", "i"], ["y0"], {}) if False else
          ("Constant", [], ["i"], {"value_int": -1}), ("SequenceAt", ["s", "i"], ["y0"], {}), ("SequenceLength", ["s"], ["y1"], {}),
          ("ConcatFromSequence", ["s"], ["y2"], {"axis": 0}))
    chain({"a": x, "b": y}, ["y0"], [np.stack([y, x, x], 1)],
          ("SequenceEmpty", [], ["e"], {}), ("SequenceInsert", ["e", "a"], ["s1"], {}), ("SequenceInsert", ["s1", "a"], ["s2"], {}),
          ("Constant", [], ["z"], {"value_int": 0}), ("SequenceInsert", ["s2", "b", "z"], ["s3"], {}),
          ("ConcatFromSequence", ["s3"], ["y0"], {"axis": 1, "new_axis": 1}))
    chain({"a": x}, ["y0", "y1"], [x[:, 1], I(3)], ("SplitToSequence", ["a"], ["s"], {"axis": 1, "keepdims": 0}),
          ("Constant", [], ["i"], {"value_int": 1}), ("SequenceAt", ["s", "i"], ["y0"], {}), ("SequenceLength", ["s"], ["y1"], {}))
    chain({"a": x}, ["y0", "y1"], [x[:, 2:], I(2)], ("Constant", [], ["k"], {"value_int": 2}),
          ("SplitToSequence", ["a", "k"], ["s"], {"axis": -1}), ("Constant", [], ["i"], {"value_int": 1}),
          ("SequenceAt", ["s", "i"], ["y0"], {}), ("SequenceLength", ["s"], ["y1"], {}))
    chain({"a": x, "b": y}, ["y0"], [x], ("SequenceConstruct", ["a", "b"], ["s"], {}), ("SequenceErase", ["s"], ["t"], {}),
          ("Constant", [], ["i"], {"value_int": 0}), ("SequenceAt", ["t", "i"], ["y0"], {}))
    chain({"a": x}, ["y0", "y1"], [x, I(True)], ("Optional", ["a"], ["o"], {}), ("OptionalGetElement", ["o"], ["y0"], {}),
          ("OptionalHasElement", ["o"], ["y1"], {}))


def families():
    f = Family("signal", 101)
    signals(f)
    linear_attention(f)
    yield f
    f = Family("sequences", 102)
    chains(f)
    yield f
