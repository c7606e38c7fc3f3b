"""Rows of normalisations, softmaxes and losses."""

import ml_dtypes
import numpy as np

from row import Family

I = np.array
LOOSE = (1e-4, 1e-5)


def softmax(x, axis):
    e = np.exp(x - np.max(x, axis, keepdims=True)) if x.size else x
    return e / np.sum(e, axis, keepdims=True)


def log_softmax(x, axis):
    if not x.size:
        return x
    y = x - np.max(x, axis, keepdims=True)
    return y - np.log(np.sum(np.exp(y), axis, keepdims=True))


def hardmax(x, axis):
    hot = np.arange(x.shape[axis]) == np.expand_dims(np.argmax(x, axis), -1)
    return np.moveaxis(hot, -1, axis).astype(x.dtype)


def softmaxes(f):
    for op, function in (("Softmax", softmax), ("LogSoftmax", log_softmax), ("Hardmax", hardmax)):
        for shape, axis in (((2, 3, 4), -1), ((2, 3, 4), 1), ((2, 3, 4), 0), ((5,), 0), ((3, 40), 1), ((40, 3), 0), ((2, 1), 1)):
            x = f.normal(*shape)
            f.row(op, [x], function(x.astype(np.float64), axis).astype(np.float32), opset=13, axis=axis)
        x = f.normal(2, 3, 4)
        f.row(op, [x], function(x.astype(np.float64), -1).astype(np.float32), opset=13)
        for axis in (0, 1, 2):
            n = int(np.prod(x.shape[:axis]))
            w = function(x.astype(np.float64).reshape(n, -1), 1).reshape(x.shape)
            f.row(op, [x], w.astype(np.float32), opset=11, axis=axis)
        for dtype in (np.float64, np.float16, ml_dtypes.bfloat16):
            y = f.normal(2, 3).astype(dtype)
            f.row(op, [y], function(y.astype(np.float64), 1).astype(dtype), opset=13, axis=1)
        f.row(op, [np.zeros((0, 3), np.float32)], np.zeros((0, 3), np.float32), opset=13, axis=1)
        f.row(op, [np.zeros((3, 0), np.float32)], np.zeros((3, 0), np.float32), opset=13, axis=1)
        f.row(op, [x], fails="axis", opset=13, axis=3)
    huge = I([[1e30, -1e30, 0], [1000, 999, -np.inf], [-1e5, -1e5, -1e5]], np.float32)
    f.row("Softmax", [huge], softmax(huge.astype(np.float64), 1).astype(np.float32), opset=13, axis=1)
    f.row("LogSoftmax", [huge], log_softmax(huge.astype(np.float64), 1).astype(np.float32), opset=13, axis=1)
    f.row("Hardmax", [I([[1, 3, 3], [2, 2, 1]], np.float32)], I([[0, 1, 0], [1, 0, 0]], np.float32), opset=13)
    nan = I([[1, np.nan, 2]], np.float32)
    f.row("Softmax", [nan], np.full((1, 3), np.nan, np.float32), opset=13)


def layers(f):
    x = f.normal(2, 3, 4)
    w = x.astype(np.float64)
    for axis in (-1, 1, 2, 0):
        k = axis % 3
        axes = tuple(range(k, 3))
        s, b = f.normal(*x.shape[k:]), f.normal(*x.shape[k:])
        mean, var = np.mean(w, axes, keepdims=True), np.var(w, axes, keepdims=True)
        inverse = 1 / np.sqrt(var + 1e-5)
        y = (w - mean) * inverse
        want = [v.astype(np.float32) for v in (y * s + b, mean, inverse)]
        f.row("LayerNormalization", [x, s, b], want, opset=17, outputs=3, axis=axis, tolerance=LOOSE)
        f.row("LayerNormalization", [x, s], [(y * s).astype(np.float32)], opset=17, axis=axis, tolerance=LOOSE)
        f.row("RMSNormalization", [x, s], (w / np.sqrt(np.mean(w * w, axes, keepdims=True) + 1e-5) * s).astype(np.float32), opset=23,
              axis=axis, tolerance=LOOSE)
    f.row("LayerNormalization", [f.normal(3, 64), f.normal(64), f.normal(64)], opset=17, tolerance=LOOSE, epsilon=0.1)
    f.row("LayerNormalization", [f.normal(2, 4).astype(np.float16), np.ones(4, np.float16), np.zeros(4, np.float16)], opset=17,
          oracle="ref", tolerance=(1e-2, 5e-3))
    f.row("LayerNormalization", [np.full((2, 4), 3, np.float32), np.ones(4, np.float32)], np.zeros((2, 4), np.float32), opset=17)
    f.row("LayerNormalization", [np.zeros((0, 4), np.float32), np.ones(4, np.float32)], np.zeros((0, 4), np.float32), opset=17)
    f.row("LayerNormalization", [x, np.ones(3, np.float32)], fails="onnx.LayerNormalization", opset=17)
    for shape in ((2, 3), (2, 3, 4), (2, 3, 2, 2)):
        x = f.normal(*shape)
        c = (1, 3) + (1,) * (len(shape) - 2)
        s, b, m, v = f.normal(3), f.normal(3), f.normal(3), np.abs(f.normal(3)) + np.float32(0.5)
        y = (x.astype(np.float64) - m.reshape(c)) / np.sqrt(v.astype(np.float64).reshape(c) + 1e-3) * s.reshape(c) + b.reshape(c)
        f.row("BatchNormalization", [x, s, b, m, v], y.astype(np.float32), opset=15, epsilon=1e-3)
        f.row("BatchNormalization", [x, s, b, m, v], opset=15, outputs=3, oracle="ref", training_mode=1, momentum=0.8, tolerance=LOOSE)
        if len(shape) > 2:
            f.row("InstanceNormalization", [x, s, b], opset=6, tolerance=LOOSE)
    f.row("BatchNormalization", [np.zeros((0, 3), np.float32), s, b, m, v], np.zeros((0, 3), np.float32), opset=15)
    f.row("BatchNormalization", [f.normal(2, 4), s, b, m, v], fails="onnx.BatchNormalization", opset=15)
    x = f.normal(2, 6, 3)
    for groups in (1, 2, 3, 6):
        g = x.astype(np.float64).reshape(2, groups, -1)
        y = ((g - g.mean(2, keepdims=True)) / np.sqrt(g.var(2, keepdims=True) + 1e-5)).reshape(x.shape)
        s, b = f.normal(6), f.normal(6)
        f.row("GroupNormalization", [x, s, b], (y * s[:, None] + b[:, None]).astype(np.float32), opset=21, num_groups=groups, tolerance=LOOSE)
    f.row("GroupNormalization", [x, s, b], fails="onnx.GroupNormalization", opset=21, num_groups=4)
    for size in (1, 2, 3, 4, 9):
        x = f.normal(1, 5, 2, 2)
        sq = np.stack([np.sum(x.astype(np.float64)[:, max(0, c - (size - 1) // 2):min(4, c + (-(-(size - 1) // 2))) + 1]**2, 1)
                       for c in range(5)], 1)
        f.row("LRN", [x], (x / (1.5 + 0.2 / size * sq)**0.6).astype(np.float32), opset=13, size=size, alpha=0.2, beta=0.6, bias=1.5,
              tolerance=LOOSE)
    for axis in (0, 1, -1):
        for p in (1, 2):
            x = f.normal(2, 3)
            n = np.sum(np.abs(x.astype(np.float64))**p, axis, keepdims=True)**(1 / p)
            f.row("LpNormalization", [x], (x / n).astype(np.float32), opset=22, axis=axis, p=p)
    f.row("LpNormalization", [np.zeros((2, 2), np.float32)], np.zeros((2, 2), np.float32), opset=22,
          why="a vector of zeros stays zeros, as ONNX Runtime and the reference evaluator have it")
    x = f.normal(2, 3, 2, 2)
    w = x.astype(np.float64)
    f.row("MeanVarianceNormalization", [x], ((w - w.mean((0, 2, 3), keepdims=True)) / w.std((0, 2, 3), keepdims=True)).astype(np.float32),
          opset=13, tolerance=LOOSE)
    f.row("MeanVarianceNormalization", [x], ((w - w.mean((1,), keepdims=True)) / w.std((1,), keepdims=True)).astype(np.float32), opset=13,
          tolerance=(1e-3, 1e-4), axes=[1])
    x = f.normal(2, 3)
    f.row("Dropout", [x], x, opset=13)
    f.row("Dropout", [x], [x, np.ones((2, 3), bool)], opset=13, outputs=2)
    f.row("Dropout", [x, np.float32(0.7), I(False)], x, opset=13)


def losses(f):
    for shape, labels in (((4, 5), (4,)), ((2, 5, 3), (2, 3)), ((2, 4, 2, 2), (2, 2, 2))):
        x, t = f.normal(*shape), f.integers(0, shape[1] - 1, *labels)
        w = np.abs(f.normal(shape[1])) + np.float32(0.1)
        for reduction in ("none", "mean", "sum"):
            for weight in (0, 1):
                for ignore in ({}, {"ignore_index": 1}):
                    inputs = [x, t] + ([w] if weight else [])
                    f.row("NegativeLogLikelihoodLoss", inputs, opset=22, oracle="ref", reduction=reduction, tolerance=LOOSE, **ignore)
                    if shape == (4, 5):
                        f.row("SoftmaxCrossEntropyLoss", inputs, opset=13, oracle="ref", outputs=2, reduction=reduction, tolerance=LOOSE,
                              **ignore)
    f.row("SoftmaxCrossEntropyLoss", [f.normal(2, 3), I([0, 3])], fails="3", opset=13)
    f.row("NegativeLogLikelihoodLoss", [f.normal(2, 3), I([0, -1])], fails="-1", opset=13)


def families():
    f = Family("softmax", 71)
    softmaxes(f)
    yield f
    f = Family("normalisation", 72)
    layers(f)
    losses(f)
    yield f
