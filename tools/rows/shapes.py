"""Rows of types only: seeded random shapes, zero-size and scalars among them, with the reference evaluator's shapes."""

import numpy as np

from row import Family

I = np.array


class Shapes:
    def __init__(self, f):
        self.f, self.rng = f, f.rng

    def dim(self, low=0, high=4):
        """Zero now and then."""
        return int(self.rng.integers(low, high + 1))

    def dims(self, low=0, high=4, least=0):
        return tuple(self.dim(least, 4) for _ in range(int(self.rng.integers(low, high + 1))))

    def axis(self, rank):
        return int(self.rng.integers(-rank, rank))

    def x(self, *dims):
        return np.zeros(dims, np.float32)

    def row(self, op, inputs, **attrs):
        attrs = {"oracle": "ref", "opset": 21} | attrs
        self.f.row(op, inputs, shape_only=True, **attrs)

    def partner(self, dims):
        """Dims that broadcast with these."""
        out = [1 if self.rng.integers(0, 3) == 0 else d for d in dims]
        return tuple(out[int(self.rng.integers(0, len(out) + 1)):])

    def broadcasting(self):
        full = self.dims()
        for op in ("Add", "Mul", "Max", "Less"):
            self.row(op, [self.x(*self.partner(full)), self.x(*full)])
        self.row("Where", [self.x(*self.partner(full)).astype(bool), self.x(*full), self.x(*self.partner(full))])
        self.row("Expand", [self.x(*self.partner(full)), I(full, np.int64)])

    def moving(self):
        d = self.dims(1, 4)
        n = len(d)
        x = self.x(*d)
        self.row("Transpose", [x], perm=[int(v) for v in self.rng.permutation(n)])
        k = self.axis(n)
        if 0 not in d:
            self.row("Flatten", [x], axis=k)
        self.row("Unsqueeze", [x, I(sorted({self.axis(n + 2) % (n + 2) for _ in range(2)}))])
        e = list(d)
        other = list(d)
        other[k] = self.dim()
        self.row("Concat", [x, self.x(*other)], axis=k)
        self.row("Tile", [x, I([self.dim(0, 3) for _ in e])])
        self.row("Pad", [x, I([self.dim(0, 2) for _ in range(2 * n)])])
        a = k % n
        step = int(self.rng.choice([-2, -1, 1, 3]))
        start, end = int(self.rng.integers(-5, 6)), int(self.rng.integers(-6, 7))
        self.row("Slice", [x, I([start]), I([end]), I([a]), I([step])],
                 oracle="ort", why="negative steps clamp starts to 0, as the specification says; NumPy's slices do not")
        cut = int(self.rng.integers(0, d[a] + 1))
        self.row("Split", [x, I([cut, d[a] - cut])], outputs=2, axis=k)
        self.row("Shape", [x], start=int(self.rng.integers(-3, 3)))
        if d[a]:
            self.row("Gather", [x, np.zeros(self.dims(0, 2), np.int64)], axis=k)
            like = [self.dim(0, v) for v in d]
            self.row("GatherElements", [x, np.zeros(like, np.int64)], axis=k, oracle="both")
        self.row("CumSum", [x, I(k)])
        self.row("ArgMax", [self.x(*[max(1, v) for v in d])], axis=k, keepdims=int(self.rng.integers(0, 2)), opset=13)
        self.row("TopK", [self.x(*[v + 2 for v in d]), I([2])], axis=k, outputs=2, opset=11)
        self.row("Compress", [x, np.zeros(d[a], bool)], axis=k, opset=11)
        ones = [1 if i == a else v for i, v in enumerate(d)]
        self.row("Squeeze", [self.x(*ones), I([k])])
        axes = sorted({self.axis(n) % n for _ in range(2)})
        for op in ("ReduceSum", "ReduceMean", "ReduceProd", "ReduceL2"):
            self.row(op, [self.x(*[max(1, v) for v in d]), I(axes)], keepdims=int(self.rng.integers(0, 2)), opset=18)
        for op in ("Softmax", "LogSoftmax", "Hardmax"):
            self.row(op, [self.x(*[max(1, v) for v in d])], axis=k, opset=13)

    def products(self):
        m, k, n = self.dim(), self.dim(1), self.dim()
        batch = self.dims(0, 2)
        self.row("MatMul", [self.x(*self.partner(batch), m, k), self.x(*batch, k, n)])
        self.row("Gemm", [self.x(m, k), self.x(n, k)], transB=1)
        self.row("Einsum", [self.x(*batch, m, k), self.x(k, n)], equation="...ij,jk->...ki")

    def windows(self):
        rank = int(self.rng.integers(1, 4))
        kernel = [self.dim(1, 3) for _ in range(rank)]
        strides, dilations = [self.dim(1, 3) for _ in range(rank)], [self.dim(1, 2) for _ in range(rank)]
        pads = [self.dim(0, k - 1) for k in kernel * 2]
        size = [self.dim(6, 9) for _ in range(rank)]
        group, c, m = self.dim(1, 2), self.dim(1, 2), self.dim(1, 2)
        common = {"strides": strides, "pads": pads, "opset": 11}
        x = self.x(self.dim(1, 2), group * c, *size)
        self.row("Conv", [x, self.x(group * m, c, *kernel)], group=group, dilations=dilations, oracle="ort", **common)
        self.row("MaxPool", [x], kernel_shape=kernel, dilations=dilations, ceil_mode=int(self.rng.integers(0, 2)), oracle="ort",
                 **common | {"opset": 12})
        self.row("AveragePool", [x], kernel_shape=kernel, ceil_mode=int(self.rng.integers(0, 2)), oracle="ort", **common)
        out = [self.dim(0, s - 1) for s in strides]
        self.row("ConvTranspose", [x, self.x(group * c, m, *kernel)], group=group, output_padding=out, oracle="ort", **common)
        self.row("Resize", [x, None, I([1, 1] + [float(np.float32(self.rng.uniform(0.4, 2.5))) for _ in size], np.float32)],
                 opset=19, oracle="ort")

    def recurrent(self):
        t, b, n, h = self.dim(1), self.dim(1), self.dim(1, 3), self.dim(1, 3)
        d = self.dim(1, 2)
        for op, gates in (("RNN", 1), ("GRU", 3), ("LSTM", 4)):
            self.row(op, [self.x(t, b, n), self.x(d, gates * h, n), self.x(d, gates * h, h)], hidden_size=h, opset=14, oracle="ort",
                     outputs=3 if op == "LSTM" else 2, direction="bidirectional" if d == 2 else "forward")

    def nd(self):
        d = self.dims(2, 4, 1)
        last = int(self.rng.integers(1, len(d) + 1))
        i = np.zeros((*self.dims(0, 2), last), np.int64)
        self.row("GatherND", [self.x(*d), i])
        self.row("OneHot", [np.zeros(self.dims(0, 3), np.int64), I(self.dim(1)), I([0, 1])], opset=11)
        self.row("NonZero", [self.x(*d)], opset=13)
        self.row("ConstantOfShape", [I(self.dims(0, 3), np.int64)], opset=9)
        b = self.dim(1, 2)
        self.row("DepthToSpace", [self.x(self.dim(), b * b * self.dim(1), self.dim(1), self.dim(1))], blocksize=b, opset=13)
        self.row("SpaceToDepth", [self.x(self.dim(), self.dim(1), b * self.dim(1), b * self.dim(1))], blocksize=b, opset=13)


def families():
    f = Family("shapes", 111)
    s = Shapes(f)
    for _ in range(8):
        s.broadcasting()
        s.moving()
        s.products()
        s.windows()
        s.recurrent()
        s.nd()
    yield f
