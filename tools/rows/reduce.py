"""Rows of reductions, ArgMax and ArgMin, and cumulative ops."""

import ml_dtypes
import numpy as np

from row import Family

FLOATS = [np.float32, np.float64, np.float16, ml_dtypes.bfloat16]


def log_sum_exp(x, axis, keepdims):
    if x.size == 0 and all(x.shape[a] == 0 or True for a in (axis if axis is not None else range(x.ndim))):
        return np.log(np.sum(np.exp(x), axis=axis, keepdims=keepdims))
    most = np.max(x, axis=axis, keepdims=True) if x.size else np.zeros(())
    most = np.where(np.isfinite(most), most, 0)
    total = np.log(np.sum(np.exp(x - most), axis=axis, keepdims=keepdims))
    return total + (most if keepdims else np.squeeze(most, axis=axis if axis is not None else None))


OPS = {
    "ReduceSum": lambda x, a, k: np.sum(x, axis=a, keepdims=k), "ReduceMean": lambda x, a, k: np.mean(x, axis=a, keepdims=k),
    "ReduceProd": lambda x, a, k: np.prod(x, axis=a, keepdims=k),
    "ReduceL1": lambda x, a, k: np.sum(np.abs(x), axis=a, keepdims=k),
    "ReduceL2": lambda x, a, k: np.sqrt(np.sum(x * x, axis=a, keepdims=k)),
    "ReduceSumSquare": lambda x, a, k: np.sum(x * x, axis=a, keepdims=k),
    "ReduceLogSum": lambda x, a, k: np.log(np.sum(x, axis=a, keepdims=k)),
    "ReduceLogSumExp": log_sum_exp,
    "ReduceMax": lambda x, a, k: np.max(x, axis=a, keepdims=k), "ReduceMin": lambda x, a, k: np.min(x, axis=a, keepdims=k),
}


def reductions(f):
    for op, function in OPS.items():
        def want(x, axes, keep):
            with np.errstate(all="ignore"):
                wide = x.astype(np.float64)
                axes = None if axes is None else tuple(a % x.ndim for a in axes)
                return np.asarray(function(wide, axes, bool(keep))).astype(x.dtype)

        positive = op == "ReduceLogSum"
        cases = [((2, 3, 4), [1], 1), ((2, 3, 4), [-1], 0), ((2, 3, 4), [0, 2], 0), ((2, 3, 4), [-3, -2], 1), ((5,), [0], 0),
                 ((2, 3, 4), None, 1), ((2, 3), None, 0), ((2, 1, 3), [1], 1), ((3, 40), [1], 0), ((40, 3), [0], 1),
                 ((2, 2, 2, 2, 2), [1, 3], 0)]
        for shape, axes, keep in cases:
            x = f.normal(*shape)
            x = np.abs(x) if positive else x
            ax = None if axes is None else np.array(axes, np.int64)
            opset = 20 if op in ("ReduceMax", "ReduceMin") else 18
            f.row(op, [x, ax] if ax is not None else [x], want(x, axes, keep), opset=opset, keepdims=keep)
            if axes is not None and op != "ReduceSum":
                f.row(op, [x], want(x, axes, keep), opset=11, keepdims=keep, axes=axes)
        for dtype in FLOATS[1:]:
            x = np.abs(f.normal(3, 4)).astype(dtype)
            f.row(op, [x, np.array([1])], want(x, [1], 0), opset=opset, keepdims=0)
        x = f.normal(2, 3)
        f.row(op, [x, np.array([], np.int64)], x, opset=opset, noop_with_empty_axes=1) if op not in (
            "ReduceLogSum", "ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSumExp") else None
        x = np.abs(x) if positive else x
        f.row(op, [x, np.array([], np.int64)], want(x, None, 1), opset=opset)
        x = np.array(2.5, np.float32)
        f.row(op, [x], want(x, None, 0), opset=opset, keepdims=0)
        f.row(op, [np.array([[1, 2], [np.nan, 3]], np.float32), np.array([1])],
              want(np.array([[1, 2], [np.nan, 3]], np.float32), [1], 0), opset=opset, keepdims=0)
        if op not in ("ReduceMax", "ReduceMin", "ReduceMean"):
            f.row(op, [np.zeros((2, 0, 3), np.float32), np.array([1])], want(np.zeros((2, 0, 3), np.float32), [1], 1), opset=opset)
        f.row(op, [np.zeros((0, 3), np.float32), np.array([1])], np.zeros((0, 1), np.float32), opset=opset)
    for dtype in (np.int32, np.int64, np.uint32, np.uint64):
        x = np.array([[1, 2, 3], [4, 5, np.iinfo(dtype).max]], dtype)
        with np.errstate(all="ignore"):
            f.row("ReduceSum", [x, np.array([0])], np.sum(x, 0, keepdims=True, dtype=dtype), opset=18)
            f.row("ReduceProd", [x[:, :2], np.array([1])], np.prod(x[:, :2], 1, keepdims=True, dtype=dtype), opset=18)
            f.row("ReduceSumSquare", [x[:, :2], np.array([1])], np.sum(x[:, :2]**2, 1, keepdims=True, dtype=dtype), opset=18)
            f.row("ReduceL1", [x[:, :2], np.array([1])], np.sum(x[:, :2], 1, keepdims=True, dtype=dtype), opset=18)
    for dtype in (np.int8, np.uint8, np.int32, np.int64, np.uint32, np.uint64):
        x = np.array([[np.iinfo(dtype).min, 2, 3], [4, 5, np.iinfo(dtype).max]], dtype)
        f.row("ReduceMax", [x, np.array([1])], np.max(x, 1, keepdims=True), opset=20)
        f.row("ReduceMin", [x, np.array([-2])], np.min(x, 0, keepdims=True), opset=20)
    b = np.array([[True, False], [False, False]])
    f.row("ReduceMax", [b, np.array([1])], np.max(b, 1, keepdims=True), opset=20)
    f.row("ReduceMin", [b, np.array([0])], np.min(b, 0, keepdims=True), opset=20)
    e = np.zeros((2, 0), np.float32)
    f.row("ReduceMax", [e, np.array([1])], np.full((2, 1), -np.inf, np.float32), opset=20)
    f.row("ReduceMin", [e, np.array([1])], np.full((2, 1), np.inf, np.float32), opset=20)
    e = np.zeros((2, 0), np.int32)
    f.row("ReduceMax", [e, np.array([1])], np.full((2, 1), np.iinfo(np.int32).min, np.int32), opset=20)
    f.row("ReduceMin", [e, np.array([1])], np.full((2, 1), np.iinfo(np.int32).max, np.int32), opset=20)
    f.row("ReduceSum", [f.normal(2, 3), np.array([2])], fails="axis 2", opset=18)
    f.row("ReduceSum", [f.normal(2, 3), np.array([-3])], fails="axis -3", opset=18)
    huge = np.array([[1000, 1000, 999], [-1000, -1001, -np.inf]], np.float32)
    f.row("ReduceLogSumExp", [huge, np.array([1])], log_sum_exp(huge.astype(np.float64), (1,), True).astype(np.float32), opset=18)


def arg(f):
    for op, pick in (("ArgMax", np.argmax), ("ArgMin", np.argmin)):
        for dtype in (np.float32, np.float64, np.float16, np.int8, np.uint8, np.int32, np.int64, np.uint64, np.int16):
            x = np.array([[3, 1, 3, 1], [0, 5, 5, 0], [2, 2, 2, 2]], dtype)
            for axis in (0, 1, -1):
                for last in (0, 1):
                    n = x.shape[axis]
                    w = n - 1 - pick(np.flip(x, axis), axis=axis) if last else pick(x, axis=axis)
                    if dtype == np.float32 or axis == 1:
                        f.row(op, [x], np.expand_dims(w, axis).astype(np.int64), opset=13, axis=axis, select_last_index=last)
            f.row(op, [x], pick(x, axis=0).astype(np.int64), opset=13, keepdims=0)
        f.row(op, [np.zeros((0, 3), np.float32)], np.zeros((0, 1), np.int64), opset=13, axis=1)
        f.row(op, [f.normal(2, 3, 4)], opset=13, axis=-2, keepdims=0)
        f.row(op, [np.zeros((2, 0), np.float32)], fails="no elements", opset=13, axis=1)


def cumulative(f):
    for dtype in (np.float32, np.float64, np.int32, np.int64, np.uint32, np.float16):
        x = f.integers(1, 3, 2, 3, 4).astype(dtype)
        for op, function, one in (("CumSum", np.cumsum, 0), ("CumProd", np.cumprod, 1)):
            opset = 14 if op == "CumSum" else 26
            for axis in (0, 1, -1):
                for exclusive in (0, 1):
                    for reverse in (0, 1):
                        if dtype != np.float32 and (axis == 0 or (exclusive + reverse == 1)):
                            continue
                        y = np.flip(x, axis) if reverse else x
                        w = function(y, axis=axis, dtype=dtype)
                        if exclusive:
                            w = np.roll(w, 1, axis)
                            np.moveaxis(w, axis, 0)[0] = one
                        w = np.flip(w, axis) if reverse else w
                        f.row(op, [x, np.array(axis, np.int32 if axis else np.int64)], w.astype(dtype), opset=opset,
                              exclusive=exclusive, reverse=reverse)
            if dtype == np.float32:
                f.row(op, [np.zeros((2, 0, 3), dtype), np.array(1)], np.zeros((2, 0, 3), dtype), opset=opset)
                f.row(op, [x, np.array(3)], fails="axis", opset=opset)


def families():
    f = Family("reduce", 21)
    reductions(f)
    yield f
    f = Family("arg_cumulative", 22)
    arg(f)
    cumulative(f)
    yield f
