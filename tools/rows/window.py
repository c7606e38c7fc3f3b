"""Rows of convolution and pooling: strides, dilations, pads, groups, ceil mode, auto_pad, one to three dims."""

import numpy as np
from onnx import helper

from row import Family, node_text

I = np.array
FLOATS = (1e-4, 1e-5)


def convolutions(f):
    cases = [((1, 2, 7), (3, 2, 3), {}), ((2, 2, 7), (3, 2, 3), {"strides": [2], "pads": [1, 2]}),
             ((1, 4, 7), (6, 2, 3), {"group": 2, "dilations": [2]}), ((1, 2, 5, 6), (3, 2, 3, 2), {}),
             ((1, 2, 5, 6), (3, 2, 3, 2), {"pads": [1, 0, 2, 1], "strides": [2, 1], "dilations": [1, 2]}),
             ((1, 3, 5, 5), (3, 1, 3, 3), {"group": 3, "pads": [1, 1, 1, 1]}),
             ((1, 3, 5, 5), (6, 1, 3, 3), {"group": 3, "strides": [2, 2]}), ((2, 4, 4, 4), (6, 4, 1, 1), {}),
             ((1, 1, 4, 5, 3), (2, 1, 2, 3, 2), {"pads": [0, 1, 0, 1, 0, 1]}), ((1, 2, 5, 5), (3, 2, 2, 2), {"auto_pad": "SAME_UPPER"}),
             ((1, 2, 5, 5), (3, 2, 2, 2), {"auto_pad": "SAME_LOWER", "strides": [2, 2]}), ((1, 2, 5, 5), (3, 2, 3, 3), {"auto_pad": "VALID"}),
             ((1, 16, 6, 6), (32, 16, 3, 3), {"pads": [1, 1, 1, 1]}), ((1, 32, 9, 9), (32, 1, 3, 3), {"group": 32, "pads": [1, 1, 1, 1]})]
    for x, w, attrs in cases:
        for bias in (0, 1):
            large = w[0] == 32
            if large and bias:
                continue
            if large:
                inputs = [f.integers(-2, 2, *s).astype(np.float32) for s in (x, w)]
            else:
                inputs = [f.normal(*x), f.normal(*w)] + ([f.normal(w[0])] if bias else [])
            f.row("Conv", inputs, opset=11, tolerance=FLOATS, oracle="ort" if "auto_pad" in attrs else "both", **attrs)
    f.row("Conv", [np.zeros((0, 2, 5, 5), np.float32), f.normal(3, 2, 3, 3)], np.zeros((0, 3, 3, 3), np.float32), opset=11)
    for dtype in (np.float64, np.float16):
        x, w = f.integers(-2, 2, 1, 2, 4, 4).astype(dtype), f.integers(-2, 2, 2, 2, 3, 3).astype(dtype)
        from linear import convolve

        f.row("Conv", [x, w], convolve(x.astype(np.int64), w.astype(np.int64)).astype(dtype), opset=22)
    f.row("Conv", [f.normal(1, 3, 5, 5), f.normal(2, 2, 3, 3)], fails="channels", opset=11)
    f.row("Conv", [f.normal(1, 2, 2, 2), f.normal(2, 2, 3, 3)], fails="onnx.Conv", opset=11)
    f.row("Conv", [f.normal(1, 2, 5, 5), f.normal(2, 2, 3, 3)], fails="onnx.Conv", opset=11, strides=[0, 1])
    f.row("Conv", [f.normal(1, 2, 5, 5), f.normal(2, 2, 3, 3)], fails="onnx.Conv", opset=11, pads=[1, 1])
    transposed = [((1, 2, 4), (2, 3, 3), {}), ((1, 2, 4), (2, 3, 3), {"strides": [2], "pads": [1, 0], "output_padding": [1]}),
                  ((1, 4, 3, 3), (4, 2, 3, 3), {"group": 2, "strides": [2, 2]}), ((1, 2, 3, 3), (2, 2, 2, 2), {"dilations": [2, 2]}),
                  ((1, 2, 3, 3), (2, 2, 3, 3), {"strides": [2, 2], "output_shape": [6, 6]}),
                  ((1, 2, 3, 3), (2, 2, 3, 3), {"strides": [2, 2], "auto_pad": "SAME_UPPER"}),
                  ((1, 2, 3, 3), (2, 2, 3, 3), {"strides": [2, 2], "auto_pad": "SAME_LOWER"}),
                  ((1, 1, 2, 2, 2), (1, 2, 2, 2, 2), {"strides": [2, 1, 2]}), ((1, 2, 3, 3), (2, 2, 3, 3), {"pads": [2, 1, 0, 1]})]
    for x, w, attrs in transposed:
        b = f.normal(w[1] * attrs.get("group", 1))
        f.row("ConvTranspose", [f.normal(*x), f.normal(*w), b], opset=11, tolerance=FLOATS, oracle="ort", **attrs)
        if "output_shape" not in attrs and "auto_pad" not in attrs:
            f.row("ConvTranspose", [f.normal(*x), f.normal(*w)], opset=11, tolerance=FLOATS, oracle="ort", **attrs)
    x, w, off = f.normal(1, 1, 3, 3), f.normal(1, 1, 2, 2), f.normal(1, 8, 4, 4, scale=0.5)
    f.row("DeformConv", [x, w, off], opset=19, oracle="ref", tolerance=FLOATS, kernel_shape=[2, 2], pads=[1, 1, 1, 1])
    f.row("DeformConv", [x, w, off, f.normal(1), f.normal(1, 4, 4, 4)], opset=19, oracle="ref", tolerance=FLOATS, kernel_shape=[2, 2],
          pads=[1, 1, 1, 1])
    f.row("Col2Im", [f.normal(1, 8, 4), I([3, 3]), I([2, 2])], opset=18, oracle="ref")
    f.row("Col2Im", [f.normal(1, 4, 4), I([5, 5]), I([2, 2])], opset=18, oracle="ref", strides=[3, 3])
    f.row("CausalConvWithState", [f.normal(1, 2, 5), f.normal(2, 1, 3)], opset=27, outputs=2, oracle="ref", tolerance=FLOATS)


def pools(f):
    cases = [((1, 2, 7), {"kernel_shape": [3]}), ((1, 2, 7), {"kernel_shape": [3], "strides": [2], "pads": [1, 1]}),
             ((1, 2, 7), {"kernel_shape": [2], "strides": [2], "ceil_mode": 1}), ((1, 2, 5, 6), {"kernel_shape": [2, 3]}),
             ((1, 2, 5, 6), {"kernel_shape": [3, 2], "pads": [1, 0, 2, 1], "strides": [2, 2]}),
             ((2, 1, 6, 6), {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}),
             ((1, 1, 7, 7), {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1], "ceil_mode": 1}),
             ((1, 1, 4, 5, 6), {"kernel_shape": [2, 2, 2], "strides": [1, 2, 2]}),
             ((1, 1, 5, 5), {"kernel_shape": [2, 2], "auto_pad": "SAME_UPPER"}),
             ((1, 1, 5, 5), {"kernel_shape": [2, 2], "auto_pad": "SAME_LOWER", "strides": [2, 2]}),
             ((1, 1, 5, 5), {"kernel_shape": [3, 3], "auto_pad": "VALID", "strides": [2, 2]}),
             ((1, 2, 9), {"kernel_shape": [3], "dilations": [3]}), ((1, 2, 8, 8), {"kernel_shape": [2, 3], "dilations": [2, 3]}),
             ((1, 1, 8, 8), {"kernel_shape": [3, 3], "dilations": [2, 2], "pads": [1, 1, 1, 1], "strides": [2, 2], "ceil_mode": 1}),
             ((1, 17, 6, 6), {"kernel_shape": [2, 2], "strides": [2, 2]})]
    for shape, attrs in cases:
        x = f.normal(*shape)
        lower = attrs.get("auto_pad") == "SAME_LOWER"
        f.row("MaxPool", [x], opset=12, oracle="ort" if lower else "both", **attrs,
              why="the reference evaluator's size is not the specification's ceil(in / stride)" if lower else None)
        f.row("MaxPool", [x], opset=12, outputs=2, oracle="ort", **attrs)
        f.row("AveragePool", [x], opset=19 if "dilations" in attrs else 11, oracle="ort", tolerance=FLOATS, **attrs)
        if "pads" in attrs or "auto_pad" in attrs:
            f.row("AveragePool", [x], opset=19, oracle="ort", count_include_pad=1, tolerance=FLOATS, **attrs)
        if "ceil_mode" not in attrs and "dilations" not in attrs:
            f.row("LpPool", [x], opset=18, oracle="ort", tolerance=FLOATS, **attrs)
            f.row("LpPool", [x], opset=18, oracle="ort", tolerance=FLOATS, p=1, **attrs)
    x = f.integers(0, 99, 1, 2, 4, 4)
    for dtype in (np.int8, np.uint8, np.float64, np.float16):
        f.row("MaxPool", [x.astype(dtype)], [np.max(x.reshape(1, 2, 2, 2, 2, 2), (3, 5)).astype(dtype)], opset=12, kernel_shape=[2, 2],
              strides=[2, 2])
    low = I([[[1, np.inf, 2, 3], [-np.inf, -np.inf, -np.inf, 5], [np.finfo(np.float32).min, -np.inf, 5, 6]]], np.float32)
    f.row("MaxPool", [low], [np.max(low.reshape(1, 3, 2, 2), 3)], opset=12, kernel_shape=[2], strides=[2],
          why="the reference evaluator's; ONNX Runtime's kernel of one dim gives the lowest finite number for -inf")
    f.row("GlobalMaxPool", [low], np.max(low, 2, keepdims=True), opset=1)
    wide = np.full((1, 16, 2, 4), -np.inf, np.float32)
    wide[0, 3, 1] = [1, 2, np.finfo(np.float32).min, -np.inf]
    f.row("MaxPool", [wide], [np.max(wide.reshape(1, 16, 2, 2, 2), (2, 4)).reshape(1, 16, 1, 2)], opset=12, kernel_shape=[2, 2],
          strides=[2, 2], why="as above")
    f.row("MaxPool", [f.normal(1, 1, 3)], fails="onnx.MaxPool", opset=12, kernel_shape=[4])
    f.row("MaxPool", [f.normal(1, 1, 3)], fails="onnx.MaxPool", opset=12, kernel_shape=[0])
    f.row("MaxPool", [f.normal(1, 1, 3)], fails="onnx.MaxPool", opset=12, kernel_shape=[2, 2])
    f.row("AveragePool", [f.normal(1, 1, 3)], fails="onnx.AveragePool", opset=11, kernel_shape=[2**62], pads=[2**62, 2**62])
    y = f.integers(0, 99, 1, 2, 4, 4)
    f.row("MaxPool", [x.astype(np.float32)], opset=12, outputs=2, oracle="ref", kernel_shape=[2, 2], strides=[2, 2], storage_order=1)
    v, i = f.normal(1, 1, 2, 2), I([[[[0, 3], [8, 15]]]])
    want = np.zeros(16, np.float32)
    want[i.reshape(-1)] = v.reshape(-1)
    f.row("MaxUnpool", [v, i], want.reshape(1, 1, 4, 4), opset=11, kernel_shape=[2, 2], strides=[2, 2])
    f.row("MaxUnpool", [v, i, I([1, 1, 5, 5])], oracle="ref", opset=11, kernel_shape=[2, 2], strides=[2, 2])
    f.row("MaxUnpool", [v, I([[[[0, 3], [8, 16]]]])], fails="16", opset=11, kernel_shape=[2, 2], strides=[2, 2])
    for shape in ((2, 3, 4, 5), (1, 2, 7), (1, 2, 3, 2, 2), (0, 3, 2, 2), (1, 3, 1, 1)):
        x = f.normal(*shape)
        axes = tuple(range(2, x.ndim))
        w = x.astype(np.float64)
        f.row("GlobalAveragePool", [x], np.mean(w, axes, keepdims=True).astype(np.float32), opset=1)
        f.row("GlobalMaxPool", [x], np.max(x, axes, keepdims=True), opset=1)
        f.row("GlobalLpPool", [x], np.sqrt(np.sum(w * w, axes, keepdims=True)).astype(np.float32), opset=2)
        f.row("GlobalLpPool", [x], (np.sum(np.abs(w)**3, axes, keepdims=True)**(1 / 3)).astype(np.float32), opset=2, p=3)


def pool_after_convolution(f):
    """Where kernels like blocks of channels: a channel that is minus infinity stays that."""
    from linear import convolve

    x = f.integers(-2, 2, 1, 16, 6, 6).astype(np.float32)
    w = f.integers(-1, 1, 32, 16, 3, 3).astype(np.float32)
    b = np.zeros(32, np.float32)
    b[[3, 17]] = -np.inf
    c = convolve(x.astype(np.int64), w.astype(np.int64)) + b.reshape(1, 32, 1, 1)
    want = np.max(c.reshape(1, 32, 2, 2, 2, 2), (3, 5))
    attrs = {"kernel_shape": [2, 2], "strides": [2, 2]}
    nodes = [helper.make_node("Conv", ["a", "b", "c"], ["t"]), helper.make_node("MaxPool", ["t"], ["y0"], **attrs),
             helper.make_node("GlobalMaxPool", ["t"], ["y1"])]
    texts = [node_text("Conv", ["a", "b", "c"], ["t"], {}), node_text("MaxPool", ["t"], ["y0"], attrs),
             node_text("GlobalMaxPool", ["t"], ["y1"], {})]
    f.add(nodes, texts, {"a": x, "b": w, "c": b}, ["y0", "y1"],
          [want.astype(np.float32), np.max(c, (2, 3), keepdims=True).astype(np.float32)], opset=12)


def regions(f):
    x, rois = f.normal(2, 2, 6, 6), I([[0.5, 0.5, 4.0, 3.5], [1, 2, 5.5, 5], [-0.9, -0.8, 2.1, 2]], np.float32)
    batch = I([0, 1, 1])
    for mode in ("avg", "max"):
        for transform in ("half_pixel", "output_half_pixel"):
            f.row("RoiAlign", [x, rois, batch], opset=16, oracle="ort", tolerance=FLOATS, mode=mode, output_height=2, output_width=3,
                  sampling_ratio=2, coordinate_transformation_mode=transform, spatial_scale=0.8)
    f.row("RoiAlign", [x, rois, batch], opset=16, oracle="ort", tolerance=FLOATS, output_height=2, output_width=2)
    f.row("RoiAlign", [x, rois, I([0, 2, 1])], fails="2", opset=16)
    f.row("MaxRoiPool", [x, I([[0, 0, 0, 4, 3], [1, 1, 2, 5, 5]], np.float32)], opset=1, oracle="ort", pooled_shape=[2, 2])
    grid = f.normal(2, 3, 4, 2, scale=0.8)
    for mode in ("linear", "nearest", "cubic"):
        for padding in ("zeros", "border", "reflection"):
            for align in (0, 1):
                taps = mode == "cubic" and padding == "border"
                f.row("GridSample", [x[:, :1, :4, :4].copy(), grid], opset=20, oracle="ort" if taps else "both",
                      tolerance=(1e-3, 1e-4), mode=mode, padding_mode=padding, align_corners=align,
                      why="each tap is clipped, as in ONNX Runtime and PyTorch; the reference evaluator clips the point" if taps else
                      None)
    f.row("GridSample", [f.normal(1, 1, 3, 3, 3), f.normal(1, 2, 2, 2, 3, scale=0.7)], opset=20, oracle="ref", tolerance=(1e-3, 1e-4))
    for size in ([2, 3, 4, 5], ):
        for align in (0, 1):
            f.row("AffineGrid", [f.normal(2, 2, 3), I(size)], opset=20, oracle="ref", align_corners=align)
    f.row("AffineGrid", [f.normal(1, 3, 4), I([1, 1, 2, 2, 3])], opset=20, oracle="ref")


def families():
    f = Family("convolution", 61)
    convolutions(f)
    yield f
    f = Family("pooling", 62)
    pools(f)
    pool_after_convolution(f)
    yield f
    f = Family("regions", 63)
    regions(f)
    yield f
