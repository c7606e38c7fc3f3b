"""Rows of RNN, GRU and LSTM: directions, lengths, initial states, activations, clip, layout, and the attention-like states."""

import numpy as np

from row import Family

I = np.array
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
LOOSE = (1e-4, 1e-5)


def families():
    f = Family("recurrent", 81)
    t, b, n, h = 4, 3, 2, 3
    for op, gates in GATES.items():
        outputs = 3 if op == "LSTM" else 2
        for direction in ("forward", "reverse", "bidirectional"):
            d = 2 if direction == "bidirectional" else 1
            x, w, r = f.normal(t, b, n), f.normal(d, gates * h, n, scale=0.6), f.normal(d, gates * h, h, scale=0.6)
            bias, start = f.normal(d, 2 * gates * h, scale=0.5), f.normal(d, b, h, scale=0.5)
            lengths = I([4, 1, 3], np.int32)
            common = dict(opset=14, outputs=outputs, hidden_size=h, direction=direction, oracle="ort", tolerance=LOOSE)
            f.row(op, [x, w, r], **common)
            f.row(op, [x, w, r, bias], **common)
            f.row(op, [x, w, r, bias, lengths], **common)
            tail = [start] + ([f.normal(d, b, h, scale=0.5)] if op == "LSTM" else [])
            f.row(op, [x, w, r, bias, lengths, *tail], **common)
            f.row(op, [x, w, r, None, None, *tail], clip=0.5, **common)
            if op == "GRU":
                f.row(op, [x, w, r, bias, lengths, start], linear_before_reset=1, **common)
            if op == "LSTM":
                f.row(op, [x, w, r, bias, None, *tail, f.normal(d, 3 * h)], **common)
                if direction == "forward":
                    f.row(op, [x, w, r, bias], **common | {"oracle": "ref"}, input_forget=0)
            acts = {"RNN": ["Relu"], "GRU": ["HardSigmoid", "Softsign"], "LSTM": ["Sigmoid", "Relu", "Elu"]}[op] * d
            f.row(op, [x, w, r, bias], activations=acts, **common)
        x, w, r = f.normal(b, t, n), f.normal(1, gates * h, n, scale=0.6), f.normal(1, gates * h, h, scale=0.6)
        f.row(op, [x, w, r], opset=14, outputs=outputs, oracle="ref", hidden_size=h, layout=1, tolerance=LOOSE)
        x = f.normal(t, b, n)
        f.row(op, [x, w, r], opset=14, outputs=2, oracle="ort", skip=[0], hidden_size=h, tolerance=LOOSE)
        f.row(op, [np.zeros((t, 0, n), np.float32), w, r], [np.zeros((t, 1, 0, h), np.float32), np.zeros((1, 0, h), np.float32)],
              opset=14, outputs=2, hidden_size=h)
        f.row(op, [x, w, f.normal(1, gates * h, h + 1)], fails="onnx." + op, opset=14, hidden_size=h)
        f.row(op, [x, w, r, None, I([5, 1, 1], np.int32)], fails="5", opset=14, hidden_size=h)
        f.row(op, [x, w, r], fails="onnx." + op, opset=14, hidden_size=h, activations=["None"] * 3)
    yield f
