"""Rows of ops that move data or give shapes: all dtypes, negative axes, zero-size and scalars."""

import ml_dtypes
import numpy as np

from row import DTYPES, Family

I = np.array
MOST, LEAST = np.iinfo(np.int64).max, np.iinfo(np.int64).min


def sample(f, dtype, shape):
    """Values of any dtype."""
    n = int(np.prod(shape, dtype=np.int64))
    t = np.dtype(dtype)
    if t == np.dtype(object):
        return np.array([f"s{i}" for i in range(n)], object).reshape(shape)
    if t == np.dtype(bool):
        return (np.arange(n) % 3 == 0).reshape(shape)
    if t.kind == "c":
        return (np.arange(n) - 1j * np.arange(n)).astype(t).reshape(shape)
    if t.name in ("int2", "uint2", "int4", "uint4"):
        bits = int(t.name[-1])
        v = np.arange(n) % (1 << bits) - (1 << bits - 1 if t.name[0] == "i" else 0)
        return v.astype(np.int64).astype(t).reshape(shape)
    if t.kind in "iuf":
        return (np.arange(n) % 100).astype(t).reshape(shape)
    return (np.arange(n) % 100).astype(np.uint8).view(t).reshape(shape) if t.itemsize == 1 and t.name != "float4_e2m1fn" else (
        (np.arange(n) % 6).astype(np.float32).astype(t).reshape(shape))


def every_dtype(f):
    """The pure movements, for each dtype that ONNX has."""
    for number, name, dtype in DTYPES:
        opset = 25
        x = sample(f, dtype, (2, 3))
        small = name in ("int2", "uint2", "float4e2m1", "float8e8m0", "int4", "uint4") or name.startswith("float8")
        f.row("Reshape", [x, I([3, -1])], x.reshape(3, 2), opset=opset)
        f.row("Transpose", [x], np.array(x.T), opset=opset)
        f.row("Identity", [x], x, opset=opset)
        f.row("Flatten", [sample(f, dtype, (2, 3, 1))], sample(f, dtype, (2, 3)), opset=opset)
        f.row("Squeeze", [sample(f, dtype, (1, 5))], sample(f, dtype, (5,)), opset=opset)
        f.row("Unsqueeze", [x, I([0])], x[None], opset=opset)
        f.row("Shape", [x], I([2, 3]), opset=opset)
        f.row("Size", [x], I(6), opset=opset)
        if small:
            continue
        f.row("Concat", [x, sample(f, dtype, (1, 3))], np.concatenate([x, sample(f, dtype, (1, 3))]), opset=13, axis=0)
        f.row("Gather", [x, I([2, 0, -1])], x[:, [2, 0, -1]], opset=13, axis=1)
        f.row("Slice", [x, I([2]), I([-9]), I([1]), I([-1])], np.array(x[:, ::-1]), opset=13)
        f.row("Tile", [x, I([2, 1])], np.tile(x, (2, 1)), opset=13)
        f.row("Expand", [x, I([2, 1, 1])], np.array(np.broadcast_to(x, (2, 2, 3))), opset=13)
        f.row("Split", [x], [x[:, :2], x[:, 2:]], opset=18, outputs=2, axis=-1, num_outputs=2)
        f.row("GatherElements", [x, I([[1, 0, 1]])], np.array([[x[1, 0], x[0, 1], x[1, 2]]], x.dtype), opset=13)
        f.row("GatherND", [x, I([[1, 2], [0, 0]])], np.array([x[1, 2], x[0, 0]], x.dtype), opset=13)
        y = x.copy()
        y[0, 1] = x[1, 1]
        f.row("ScatterND", [x, I([[0, 1]]), x[1, 1:2]], y, opset=18)
        f.row("ScatterElements", [x, I([[0, 0, 0]]), x[1:]], np.concatenate([x[1:], x[1:]]), opset=18)
        f.row("Compress", [x, I([False, True])], x[1:], opset=11, axis=0)
        f.row("Where", [I([[True], [False]]), x, x[::-1].copy()], np.stack([x[0], x[0]]), opset=16)
        if name not in ("string", "bool"):
            f.row("DepthToSpace", [sample(f, dtype, (1, 4, 1, 1))], sample(f, dtype, (1, 1, 2, 2)), opset=13, blocksize=2)
            f.row("SpaceToDepth", [sample(f, dtype, (1, 1, 2, 2))], sample(f, dtype, (1, 4, 1, 1)), opset=13, blocksize=2)
        if name not in ("string",):
            f.row("ReverseSequence", [x, I([2, 1, 2])], np.stack([x[[1, 0], [0, 0]], x[[0, 1], [1, 1]], x[[1, 0], [2, 2]]], 1),
                  opset=10)
        if name not in ("string", "complex64", "complex128"):
            zero = np.zeros((), x.dtype)
            f.row("Trilu", [x, I(1)], np.where(np.triu(np.ones((2, 3), bool), 1), x, zero), opset=14)
            f.row("Trilu", [x, I(-1)], np.where(np.tril(np.ones((2, 3), bool), -1), x, zero), opset=14, upper=0)


def reshape(f):
    x = f.normal(2, 3, 4)
    for shape in ([4, 6], [-1], [0, -1], [2, 0, 2, -1], [24, 1], [1, 2, 3, 4, 1], [0, 0, 0]):
        target = [x.shape[i] if d == 0 else d for i, d in enumerate(shape)]
        f.row("Reshape", [x, I(shape)], x.reshape(target), opset=21)
    f.row("Reshape", [x, I([5, -1])], fails="eshape", opset=21)
    f.row("Reshape", [x, I([-1, -1])], fails="-1", opset=21)
    f.row("Reshape", [x, I([7])], fails="cannot reshape", opset=21)
    f.row("Reshape", [x, I([0, 0, 0, 0])], fails="dim", opset=21)
    f.row("Reshape", [x, I([-2, 12])], fails="-2", opset=21)
    e = np.zeros((0, 3), np.float32)
    f.row("Reshape", [e, I([3, 0])], e.reshape(3, 0), opset=21, allowzero=1)
    f.row("Reshape", [e, I([0, 5])], e.reshape(0, 5), opset=21)
    f.row("Reshape", [e, I([0, -1])], fails="cannot reshape", opset=21, allowzero=1)
    f.row("Reshape", [np.float32(3), I([], ) .astype(np.int64)], np.float32(3), opset=21)
    f.row("Reshape", [np.float32(3), I([1, 1])], np.full((1, 1), 3, np.float32), opset=21)
    f.row("Reshape", [np.full((1, 1), 3, np.float32), I([], ).astype(np.int64)], np.float32(3), opset=21)
    for axis in (0, 1, 2, 3, -1, -3):
        k = axis % 3 if axis < 0 else axis
        n = int(np.prod(x.shape[:k]))
        f.row("Flatten", [x], x.reshape(n, -1), opset=21, axis=axis)
    f.row("Flatten", [np.float32(2)], np.full((1, 1), 2, np.float32), opset=21, axis=0)
    f.row("Flatten", [np.zeros((2, 0, 3), np.float32)], np.zeros((2, 0), np.float32), opset=21)
    f.row("Flatten", [x], fails="axis", opset=21, axis=4)
    y = f.normal(1, 3, 1, 2)
    f.row("Squeeze", [y], y.reshape(3, 2), opset=13)
    f.row("Squeeze", [y, I([-2])], y.reshape(1, 3, 2), opset=13)
    f.row("Squeeze", [y, I([0, 2])], y.reshape(3, 2), opset=13)
    f.row("Squeeze", [y, I([1])], fails="1", opset=13)
    f.row("Squeeze", [y], y.reshape(3, 1, 2), opset=11, axes=[0])
    f.row("Squeeze", [np.zeros((1, 1, 1), np.float32)], np.float32(0), opset=13)
    f.row("Unsqueeze", [y, I([0, -1])], y.reshape(1, 1, 3, 1, 2, 1), opset=13)
    f.row("Unsqueeze", [y, I([5, 1])], y.reshape(1, 1, 3, 1, 2, 1), opset=13)
    f.row("Unsqueeze", [np.float32(5), I([0, 1])], np.full((1, 1), 5, np.float32), opset=13)
    f.row("Unsqueeze", [y, I([0, 0])], fails="twice", opset=13)
    f.row("Unsqueeze", [y, I([6])], fails="axis", opset=13)
    f.row("Unsqueeze", [y], y[:, None], opset=11, axes=[1])
    for start, end in ((0, None), (1, None), (-2, None), (0, -1), (1, 2), (2, 1), (-9, 9), (3, None), (1, -9)):
        attrs = {"start": start} | ({} if end is None else {"end": end})
        dims = list(x.shape)
        f.row("Shape", [x], I(dims[slice(max(start, -3), end)] if start < 3 else [], np.int64).astype(np.int64), opset=15, **attrs)
    f.row("Shape", [np.float32(1)], np.zeros(0, np.int64), opset=15)
    f.row("Size", [np.float32(1)], I(1), opset=13)
    f.row("Size", [np.zeros((3, 0), np.int8)], I(0), opset=13)
    for perm in ([2, 0, 1], [0, 2, 1], [1, 0, 2], [2, 1, 0], [0, 1, 2]):
        f.row("Transpose", [x], np.array(x.transpose(perm)), opset=21, perm=perm)
    f.row("Transpose", [np.float32(4)], np.float32(4), opset=21)
    f.row("Transpose", [np.zeros((2, 0, 3), np.float32)], np.zeros((3, 0, 2), np.float32), opset=21)
    f.row("Transpose", [x], fails="perm", opset=21, perm=[0, 1])
    f.row("Transpose", [x], fails="perm", opset=21, perm=[0, 1, 1])
    z = f.integers(0, 99, 2, 3, 2, 3, 2, dtype=np.int32)
    f.row("Transpose", [z], np.array(z.transpose(3, 1, 4, 0, 2)), opset=21, perm=[3, 1, 4, 0, 2])


def slices(f):
    x = f.integers(0, 99, 4, 5, 3, dtype=np.int32)
    cases = [([1], [3], [0], None), ([0, 1], [9, -1], [0, 1], None), ([-1], [-6], [1], [-2]), ([MOST], [LEAST], [2], [-1]),
             ([LEAST], [MOST], [-1], [2]), ([3], [1], [0], None), ([4], [9], [0], [3]), ([0], [MOST], [0], [MOST]),
             ([-1], [LEAST], [0], [LEAST + 1]), ([1, 0, 0], [2, 5, 3], None, [1, 2, 2]), ([-2], [MOST], [-3], [1])]
    for starts, ends, axes, steps in cases:
        k = axes or list(range(len(starts)))
        index = [slice(None)] * 3
        for a, s, e, st in zip(k, starts, ends, steps or [1] * len(k)):
            index[a] = slice(s, e if not (st < 0 and e <= LEAST + 1) else None, st)
        want = np.array(x[tuple(index)])
        inputs = [x, I(starts), I(ends), None if axes is None else I(axes), None if steps is None else I(steps)]
        while inputs[-1] is None:
            inputs.pop()
        f.row("Slice", inputs, want, opset=13)
    f.row("Slice", [x, I([1], np.int32), I([3], np.int32), I([-1], np.int32)], np.array(x[:, :, 1:3]), opset=13)
    f.row("Slice", [x], np.array(x[1:3, :, -2:]), opset=9, starts=[1, -2], ends=[3, 1000], axes=[0, 2])
    f.row("Slice", [x, I([0]), I([1]), I([0]), I([0])], fails="step", opset=13)
    f.row("Slice", [x, I([0]), I([1]), I([3])], fails="axis", opset=13)
    f.row("Slice", [x, I([0, 0]), I([1, 1]), I([0, -3])], fails="twice", opset=13)
    f.row("Slice", [np.zeros((0, 3), np.float32), I([0]), I([5]), I([0])], np.zeros((0, 3), np.float32), opset=13)
    for split in ([2, 3], [5, 0], [1, 1, 3]):
        want = np.split(x, np.cumsum(split)[:-1], 1)
        f.row("Split", [x, I(split)], want, opset=18, outputs=len(split), axis=1)
    f.row("Split", [x], np.split(x, [2, 4], 1), opset=18, outputs=3, axis=1, num_outputs=3)
    f.row("Split", [f.normal(7)[:5]], fails="num_outputs", opset=18, outputs=2, num_outputs=3)
    f.row("Split", [x, I([2, 2])], fails="split", opset=18, outputs=2, axis=1)
    f.row("Split", [x, I([6, -1])], fails="split", opset=18, outputs=2, axis=1)
    f.row("Split", [x], np.split(x, 2, 0), opset=13, outputs=2)
    f.row("Split", [x], np.split(x, [1], 2), opset=11, outputs=2, axis=2, split=[1, 2])
    a, b, c = f.normal(2, 1), f.normal(2, 0), f.normal(2, 3)
    f.row("Concat", [a, b, c], np.concatenate([a, b, c], 1), opset=13, axis=-1)
    f.row("Concat", [a], a, opset=13, axis=0)
    f.row("Concat", [b, b], np.concatenate([b, b], 0), opset=13, axis=0)
    f.row("Concat", [a, c], fails="oncat", opset=13, axis=0)
    f.row("Concat", [a, c], fails="axis", opset=13, axis=2)
    f.row("Concat", [np.float32(1), np.float32(2)], fails="axis", opset=13, axis=0)


def growing(f):
    x = f.normal(2, 1, 3)
    for shape in ([2, 4, 3], [3], [1], [5, 1, 1, 1], [2, 1, 1], [2, 0, 3], []):
        f.row("Expand", [x, I(shape).astype(np.int64)], np.array(np.broadcast_to(x, np.broadcast_shapes(x.shape, tuple(shape)))),
              opset=13)
    f.row("Expand", [x, I([3, 1, 3])], fails="xpand", opset=13)
    f.row("Expand", [np.float32(7), I([2, 2])], np.full((2, 2), 7, np.float32), opset=13)
    f.row("Expand", [x, I([10**6, 10**6, 1, 1, 1])], fails="emory", opset=13)
    f.row("Tile", [np.float32([[1]]), I([10**6, 10**6])], fails="emory", opset=13)
    f.row("ConstantOfShape", [I([10**6, 10**6])], fails="emory", opset=9)
    f.row("Range", [I(0), I(10**12), I(1)], fails="emory", opset=11)
    f.row("Expand", [np.float32([1]), I([2**32, 2**32])], fails="overflow", opset=13)
    f.row("Expand", [np.float32([1]), I([-3])], fails="-3", opset=13)
    for reps in ([1, 2, 1], [2, 1, 2], [0, 1, 1], [1, 1, 1]):
        f.row("Tile", [x, I(reps)], np.tile(x, reps), opset=13)
    f.row("Tile", [x, I([2, 2])], fails="repeats", opset=13)
    f.row("Tile", [x, I([2, -1, 2])], fails="-1", opset=13)
    f.row("Tile", [np.float32(3), I([]).astype(np.int64)], np.float32(3), opset=13)
    f.row("ConstantOfShape", [I([2, 0])], np.zeros((2, 0), np.float32), opset=9)
    f.row("ConstantOfShape", [I([]).astype(np.int64)], np.float32(0), opset=9)
    for value in (I([7], np.int8), I([2.5], np.float64), I([True]), I([-1], np.int64), I([3], np.uint16)):
        f.row("ConstantOfShape", [I([2, 2])], np.full((2, 2), value[0]), opset=20, value=value)
    f.row("ConstantOfShape", [I([2, -1])], fails="-1", opset=9)
    for start, limit, delta in ((0, 5, 1), (5, 0, -2), (3, 3, 1), (0, 5, -1), (-3, 4, 3)):
        for dtype in (np.int16, np.int32, np.int64, np.float32, np.float64):
            a, b, d = (np.array(v, dtype) for v in (start, limit, delta))
            f.row("Range", [a, b, d], np.arange(start, limit, delta).astype(dtype), opset=11)
    f.row("Range", [np.float32(1), np.float32(2), np.float32(0.3)], (1 + np.arange(4) * 0.3).astype(np.float32), opset=11)
    f.row("Range", [I(0), I(5), I(0)], fails="delta", opset=11)
    f.row("Range", [np.float32(0), np.float32(np.nan), np.float32(1)], fails="ange", opset=11)
    f.row("Range", [I(MOST - 2), I(MOST), I(2)], I([MOST - 2]), opset=11)
    f.row("Range", [I(LEAST), I(MOST), I(MOST)], I([LEAST, -1, MOST - 1]), opset=11)
    for k in (0, 1, -1, 5, -5):
        f.row("EyeLike", [np.zeros((3, 4), np.int32)], np.eye(3, 4, k, np.int32), opset=22, k=k)
    f.row("EyeLike", [np.zeros((2, 0), np.float32)], np.zeros((2, 0), np.float64), opset=22, dtype=11)
    f.row("EyeLike", [np.zeros((2, 2), bool)], np.eye(2, dtype=np.float16), opset=22, dtype=10)
    t = f.integers(1, 9, 2, 3, 4, dtype=np.int64)
    for k in (0, 1, -2, 9, -9, MOST, LEAST):
        clipped = max(min(k, 10), -10)
        f.row("Trilu", [t, I(k)], np.triu(t, clipped), opset=14)
        f.row("Trilu", [t, I(k)], np.tril(t, clipped), opset=14, upper=0)
    f.row("Trilu", [np.zeros((0, 3), np.float32)], np.zeros((0, 3), np.float32), opset=14)
    d = np.arange(2 * 8 * 2 * 3, dtype=np.float32).reshape(2, 8, 2, 3)
    for mode in ("DCR", "CRD"):
        f.row("DepthToSpace", [d], opset=13, blocksize=2, mode=mode)
    f.row("DepthToSpace", [d], fails="8", opset=13, blocksize=3)
    s = np.arange(2 * 2 * 4 * 6, dtype=np.float32).reshape(2, 2, 4, 6)
    f.row("SpaceToDepth", [s], opset=13, blocksize=2)
    f.row("SpaceToDepth", [s], fails="does not divide by 4", opset=13, blocksize=4)
    f.row("SpaceToDepth", [np.zeros((0, 1, 2, 2), np.float32)], np.zeros((0, 4, 1, 1), np.float32), opset=13, blocksize=2)
    for axes, shape in (([0, 1], [2, 5]), ([1], [3]), ([-1], [7])):
        f.row("CenterCropPad", [f.normal(4, 6), I(shape)], opset=18, axes=axes, oracle="ref")
    f.row("CenterCropPad", [f.normal(4, 6), I([5, 3])], opset=18, oracle="ref")


def pad(f):
    x = f.normal(2, 3, 4)
    plans = [[0, 1, 2, 0, 2, 1], [1, 0, 0, 0, 0, 3], [0, 0, 0, 0, 0, 0]]
    for mode in ("constant", "edge", "reflect", "wrap"):
        for plan in plans:
            p = [min(v, x.shape[i % 3] - 1) if mode == "reflect" else v for i, v in enumerate(plan)]
            f.row("Pad", [x, I(p)], np.pad(x, [(p[i], p[i + 3]) for i in range(3)], mode), opset=21, mode=mode)
    for value in (2.5, np.nan, -np.inf):
        f.row("Pad", [x, I([0, 0, 1, 0, 0, 0]), np.float32(value)], np.pad(x, [(0, 0), (0, 0), (1, 0)], constant_values=value),
              opset=21)
    f.row("Pad", [x, I([0, -1, -2, 0, 1, 1])], np.pad(x[:, 1:, 2:], [(0, 0), (0, 1), (0, 1)]), opset=21)
    f.row("Pad", [x, I([0, -1, -2, -1, -1, 0])], x[:1, 1:2, 2:], opset=21)
    f.row("Pad", [x, I([0, 0, -3, 0, 0, -2])], fails="ad", opset=21)
    f.row("Pad", [x, I([2, 1]), None, I([-1])], np.pad(x, [(0, 0), (0, 0), (2, 1)]), opset=21)
    f.row("Pad", [x, I([2, 1, 0, 3]), np.float32(1), I([2, 0], np.int32)], np.pad(x, [(1, 3), (0, 0), (2, 0)],
                                                                       constant_values=1), opset=21)
    for dtype in (np.int8, np.uint8, np.int32, np.int64, np.float64, np.float16, np.bool_, ml_dtypes.bfloat16, np.uint64):
        y = sample(f, dtype, (2, 3))
        one = np.ones((), y.dtype)
        f.row("Pad", [y, I([1, 0, 0, 2]), one], np.concatenate([np.full((1, 5), one, y.dtype), np.concatenate(
            [y, np.full((2, 2), one, y.dtype)], 1)]), opset=21)
    f.row("Pad", [np.zeros((0, 2), np.float32), I([1, 0, 1, 0])], np.zeros((2, 2), np.float32), opset=21)
    f.row("Pad", [np.float32(3), I([]).astype(np.int64)], np.float32(3), opset=21)
    f.row("Pad", [x, I([0, 0])], fails="pads", opset=21)
    f.row("Pad", [x, I([MOST, 0, 0, MOST, 0, 0])], fails="cannot be padded", opset=21)
    f.row("Pad", [x], np.pad(x, [(0, 0), (1, 1), (0, 2)], "edge"), opset=2, pads=[0, 1, 0, 0, 1, 2], mode="edge")
    f.row("Pad", [x, I([0, 0, 5, 0, 0, 6])], np.pad(x, [(0, 0), (0, 0), (5, 6)], "wrap"), opset=21, mode="wrap")


def families():
    f = Family("every_dtype", 31)
    every_dtype(f)
    yield f
    f = Family("reshape", 32)
    reshape(f)
    yield f
    f = Family("slice_split_concat", 33)
    slices(f)
    yield f
    f = Family("grow_pad", 34)
    growing(f)
    pad(f)
    yield f
