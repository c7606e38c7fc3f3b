"""Rows of ops that pick by index: gather, scatter, TopK, Unique, NonZero, OneHot, Compress, NonMaxSuppression, strings."""

import numpy as np

from row import Family

I = np.array


def gathers(f):
    x = f.normal(3, 4, 2)
    for axis in (0, 1, -1):
        n = x.shape[axis]
        for shape in ((), (2,), (2, 2), (0,)):
            for t in (np.int32, np.int64):
                i = f.integers(-n, n - 1, *shape, dtype=t)
                f.row("Gather", [x, i], np.take(x, i % n, axis), opset=13, axis=axis)
    f.row("Gather", [x, I([3])], fails="3", opset=13)
    f.row("Gather", [x, I([-4])], fails="-4", opset=13)
    f.row("Gather", [x, I([2**40])], fails="1099511627776", opset=13)
    f.row("Gather", [np.zeros((0, 3), np.float32), I([0])], fails="0", opset=13)
    f.row("Gather", [np.zeros((0, 3), np.float32), np.zeros(0, np.int64)], np.zeros((0, 3), np.float32), opset=13)
    for axis in (0, 1, 2, -2):
        n = x.shape[axis]
        shape = [max(1, d - 1) for d in x.shape]
        shape[axis] = 3
        i = f.integers(-n, n - 1, *shape)
        f.row("GatherElements", [x, i], np.take_along_axis(x[tuple(slice(d) if k != axis % 3 else slice(None) for k, d in
                                                                 enumerate(shape))], i % n, axis), opset=13, axis=axis)
    f.row("GatherElements", [x, I([[[4]]])], fails="4", opset=13, axis=1)
    f.row("GatherElements", [x, np.zeros((9, 4, 2), np.int64)], fails="dim 0", opset=13, axis=1)
    for batch, shape in ((0, (2, 3)), (0, (2, 2)), (0, (1,)), (1, (3, 1)), (1, (3, 2, 2)), (2, (3, 4, 1))):
        last = shape[-1]
        bounds = x.shape[batch:batch + last]
        i = np.stack([f.integers(-b, b - 1, *shape[:-1]) for b in bounds], -1)
        f.row("GatherND", [x, i], opset=13, batch_dims=batch, oracle="both" if batch else "ref")
    f.row("GatherND", [x, I([[3, 0]])], fails="3", opset=13)
    f.row("GatherND", [x, np.zeros((1, 4), np.int64)], fails="4", opset=13)
    f.row("GatherND", [x, np.zeros((0, 2), np.int64)], np.zeros((0, 2), np.float32), opset=13)


COMBINE = {"none": lambda a, b: b, "add": lambda a, b: a + b, "mul": lambda a, b: a * b, "max": max, "min": min}


def scatters(f):
    for dtype in (np.float32, np.int64, np.float64, np.int32, np.uint8, np.float16):
        x = f.integers(0, 5, 3, 4).astype(dtype)
        for how, function in COMBINE.items():
            i = I([[0, 2, -1], [0, 1, -2]]) if how != "none" else I([[0, 2, -1], [1, 0, -3]])
            u = f.integers(0, 5, 2, 3).astype(dtype)
            y = x.copy()
            for (r, c), k in np.ndenumerate(i):
                y[k % 3, c] = function(y[k % 3, c], u[r, c])
            f.row("ScatterElements", [x, i, u], y, opset=18, reduction=how)
            i = I([[0, 1], [-1, -1], [0, 1]]) if how != "none" else I([[0, 1], [-1, -1], [1, 1]])
            u = f.integers(0, 5, 3).astype(dtype)
            y = x.copy()
            for r, (a, b) in enumerate(i):
                y[a, b] = function(y[a, b], u[r])
            f.row("ScatterND", [x, i, u], y, opset=18, reduction=how)
    x = f.normal(3, 4)
    y = x.copy()
    y[:, [3, 0]] = [[1, 2], [3, 4], [5, 6]]
    f.row("ScatterElements", [x, I([[3, 0]] * 3, np.int32), np.arange(1, 7, dtype=np.float32).reshape(3, 2)], y, opset=18, axis=-1)
    f.row("Scatter", [x, I([[3, 0]] * 3, np.int32), np.arange(1, 7, dtype=np.float32).reshape(3, 2)], y, opset=9, axis=1)
    f.row("ScatterElements", [x, I([[3]]), np.zeros((1, 1), np.float32)], fails="3", opset=18)
    f.row("ScatterElements", [x, I([[1]]), np.zeros((1, 2), np.float32)], fails="of updates 2", opset=18)
    f.row("ScatterND", [x, I([[3, 0]]), np.zeros(1, np.float32)], fails="3", opset=18)
    f.row("ScatterND", [x, I([[1]]), np.zeros((1, 3), np.float32)], fails="updates", opset=18)
    f.row("ScatterND", [x, np.zeros((0, 2), np.int64), np.zeros(0, np.float32)], x, opset=18)
    f.row("ScatterElements", [x, np.zeros((0, 4), np.int64), np.zeros((0, 4), np.float32)], x, opset=18)
    y = x.copy()
    y[2] = 7
    f.row("ScatterND", [x, I([2]), np.full(4, 7, np.float32)], y, opset=18)
    cache, update = f.normal(2, 1, 4, 3), f.normal(2, 1, 2, 3)
    f.row("TensorScatter", [cache, update, I([1, 2])], opset=24, oracle="ref")
    f.row("TensorScatter", [cache, update], opset=24, oracle="ref")
    f.row("TensorScatter", [cache, update, I([3, 2])], opset=24, oracle="ref", mode="circular")
    f.row("TensorScatter", [cache, update, I([3, 0])], fails="3", opset=24)


def top(f):
    for dtype in (np.float32, np.float64, np.float16, np.int8, np.uint8, np.int32, np.int64, np.uint64, np.int16):
        x = I([[3, 1, 3, 2, 1, 3], [0, 0, 5, 5, 1, 1]], dtype)
        for largest in (0, 1):
            for k in ((1, 3, 6) if dtype == np.float32 else (4,)):
                order = np.argsort(-x.astype(np.int64) if largest else x.astype(np.int64), 1, kind="stable")[:, :k]
                f.row("TopK", [x, I([k])], [np.take_along_axis(x, order, 1), order], opset=24, outputs=2, largest=largest)
    x = f.normal(4, 3)
    order = np.argsort(-x, 0, kind="stable")[:2]
    f.row("TopK", [x, I([2])], [np.take_along_axis(x, order, 0), order], opset=11, outputs=2, axis=-2)
    f.row("TopK", [x], [np.take_along_axis(x, order, 0), order], opset=1, outputs=2, axis=0, k=2)
    x = f.normal(2, 300)
    order = np.argsort(-x, 1, kind="stable")[:, :5]
    f.row("TopK", [x, I([5])], [np.take_along_axis(x, order, 1), order], opset=11, outputs=2)
    f.row("TopK", [x[:, :4], I([0])], [np.zeros((2, 0), np.float32), np.zeros((2, 0), np.int64)], opset=11, outputs=2)
    f.row("TopK", [x[:, :4], I([5])], fails="5", opset=11, outputs=2)
    f.row("TopK", [x[:, :4], I([-1])], fails="-1", opset=11, outputs=2)
    f.row("TopK", [np.zeros((0, 4), np.float32), I([2])], [np.zeros((0, 2), np.float32), np.zeros((0, 2), np.int64)], opset=11,
          outputs=2)
    s = I([np.inf, -np.inf, 0, 5], np.float32)
    f.row("TopK", [s, I([4])], [I([np.inf, 5, 0, -np.inf], np.float32), I([0, 3, 2, 1])], opset=11, outputs=2)


def sets(f):
    for dtype in (np.float32, np.int64, np.int8, np.uint8, np.float64, np.int32):
        x = I([2, 1, 1, 3, 4, 3, 0], dtype)
        f.row("Unique", [x], outputs=4, opset=11, oracle="ref")
        f.row("Unique", [x], outputs=4, opset=11, oracle="ref", sorted=0)
    m = I([[1, 0, 0], [1, 0, 0], [2, 3, 4]], np.float32)
    for axis in (0, 1, -1):
        f.row("Unique", [m], outputs=4, opset=11, oracle="ref", axis=axis)
    f.row("Unique", [m], outputs=4, opset=11, oracle="ref")
    e = np.zeros(0, np.int64)
    f.row("Unique", [np.zeros(0, np.float32)], [np.zeros(0, np.float32), e, e, e], outputs=4, opset=11)
    f.row("Unique", [I(["b", "a", "b"], object)], [I(["a", "b"], object), I([1, 0]), I([1, 0, 1]), I([1, 2])], outputs=4, opset=11)
    for dtype in (np.float32, np.int64, np.int8, np.bool_, np.float16, np.uint8):
        x = I([[0, 1, 0], [3, 0, 2]]).astype(dtype)
        f.row("NonZero", [x], I(np.nonzero(x), np.int64), opset=13)
    f.row("NonZero", [I([np.nan, -0.0, np.inf], np.float32)], I([[0, 2]]), opset=13)
    f.row("NonZero", [np.zeros((2, 0, 3), np.float32)], np.zeros((3, 0), np.int64), opset=13)
    f.row("NonZero", [np.float32(2)], np.zeros((0, 1), np.int64), opset=13,
          why="NumPy 1's nonzero of a scalar took it as a vector; the rows of the result are the rank, which is 0")
    f.row("NonZero", [np.float32(0)], np.zeros((0, 0), np.int64), opset=13, why="as above")
    x = f.normal(3, 4)
    for axis in (0, 1, -2):
        n = x.shape[axis]
        c = I([True, False, True, True][:n])
        f.row("Compress", [x, c], np.compress(c, x, axis), opset=11, axis=axis)
    f.row("Compress", [x, I([False, True])], np.compress([False, True], x, 1), opset=11, axis=1)
    f.row("Compress", [x, I([True, False, True])], I([x[0, 0], x[0, 2]]), opset=11)
    f.row("Compress", [x, np.zeros(0, bool)], np.zeros((3, 0), np.float32), opset=11, axis=1)
    for axis in (-1, 0, 1):
        i = I([[0, -1], [5, 2]])
        hot = (np.arange(4) == np.expand_dims(np.where(i < 0, i + 4, i), 2)) & np.expand_dims((i >= -4) & (i < 4), 2)
        f.row("OneHot", [i, I(4), I([2, 7], np.float32)], np.moveaxis(np.where(hot, np.float32(7), np.float32(2)), 2, axis), opset=11,
              axis=axis)
    f.row("OneHot", [I([1.0, 0.0], np.float32), I([3], np.int32), I([0, 1], np.int8)], I([[0, 1, 0], [1, 0, 0]], np.int8), opset=11)
    f.row("OneHot", [I(2), I(3), I([False, True])], I([False, False, True]), opset=11)
    f.row("OneHot", [np.zeros(0, np.int64), I(3), I([0, 1])], np.zeros((0, 3), np.int64), opset=11)
    f.row("OneHot", [I([1]), I(-1), I([0, 1])], fails="-1", opset=11)
    for t in ([2, 1, 3], [1, 1, 1]):
        x = f.normal(4, 3, 2)
        y = x.copy()
        for b, n in enumerate(t):
            y[:n, b] = x[:n, b][::-1]
        f.row("ReverseSequence", [x, I(t)], y, opset=10, time_axis=0, batch_axis=1)
    f.row("ReverseSequence", [x, I([5, 1, 1])], fails="5", opset=10, time_axis=0, batch_axis=1)


def boxes(f):
    b = np.round(f.rng.uniform(0, 1, (2, 8, 4)), 2).astype(np.float32)
    s = np.round(f.rng.uniform(0, 1, (2, 3, 8)), 2).astype(np.float32)
    centre = np.concatenate([b[..., :2], b[..., 2:] * 0.5 + 0.1], -1).astype(np.float32)
    for n, iou, score in ((3, 0.3, 0.2), (8, 0.0, 0.0), (2, 0.9, 0.5), (0, 0.5, 0.1)):
        f.row("NonMaxSuppression", [b, s, I([n]), np.float32([iou]), np.float32([score])], opset=11)
        f.row("NonMaxSuppression", [centre, s, I([n]), np.float32([iou]), np.float32([score])], opset=11, center_point_box=1)
    f.row("NonMaxSuppression", [b, s], np.zeros((0, 3), np.int64), opset=11)
    f.row("NonMaxSuppression", [b, s, I([2])], opset=11, oracle="ort")
    f.row("NonMaxSuppression", [np.zeros((1, 0, 4), np.float32), np.zeros((1, 1, 0), np.float32), I([2])],
          np.zeros((0, 3), np.int64), opset=11)
    tie = np.tile(I([[0, 0, 1, 1], [0, 0, 1, 1], [5, 5, 6, 6]], np.float32), (1, 1, 1))
    f.row("NonMaxSuppression", [tie, np.full((1, 1, 3), 0.5, np.float32), I([3]), np.float32([0.5])], opset=11, oracle="ort")


def strings(f):
    words = I(["Monday", "the", "quick", "brown", "MONDAY"], object)
    f.row("StringNormalizer", [words], opset=10, case_change_action="UPPER", is_case_sensitive=1, stopwords=["the"])
    f.row("StringNormalizer", [words], opset=10, case_change_action="LOWER", is_case_sensitive=0, stopwords=["monday"])
    f.row("StringNormalizer", [words[:1]], I([""], object), opset=10, is_case_sensitive=1, stopwords=["Monday"])
    f.row("StringConcat", [I([["a"], ["b"]], object), I(["1", "", "\u00e9"], object)],
          I([["a1", "a", "a\u00e9"], ["b1", "b", "b\u00e9"]], object), opset=20)
    f.row("StringSplit", [I(["a,b,,c", "", "x"], object)], outputs=2, opset=20, oracle="ref", delimiter=",", maxsplit=2)
    f.row("StringSplit", [I(["a  b c ", " x", ""], object)], outputs=2, opset=20, oracle="ref")
    f.row("RegexFullMatch", [I(["abc", "a", "xabcx", ""], object)], I([True, False, False, False]), opset=20, pattern="a[b-c]+")
    f.row("RegexFullMatch", [I(["foo@bar.com", "no"], object)], I([True, False]), opset=20, pattern=r"[\w.]+@\w+\.(com|org)")
    f.row("TfIdfVectorizer", [I([1, 1, 3, 3, 3, 7, 8, 6, 7, 5, 6, 8], np.int32)], opset=9, mode="TF", min_gram_length=2,
          max_gram_length=2, max_skip_count=0, ngram_counts=[0, 4], ngram_indexes=[0, 1, 2, 3, 4, 5, 6],
          pool_int64s=[2, 3, 5, 4, 5, 6, 7, 8, 6, 7])


def families():
    f = Family("gather_scatter", 41)
    gathers(f)
    scatters(f)
    yield f
    f = Family("order_sets", 42)
    top(f)
    sets(f)
    yield f
    f = Family("boxes_strings", 43)
    boxes(f)
    strings(f)
    yield f
