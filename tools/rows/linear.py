"""Rows of products: MatMul, Gemm, integer and quantised products, Einsum, attention, and determinants."""

import ml_dtypes
import numpy as np

from row import Family

I = np.array


def products(f):
    shapes = [((2, 3), (3, 4)), ((3,), (3,)), ((3,), (3, 4)), ((2, 3), (3,)), ((5, 2, 3), (3, 4)), ((5, 2, 3), (5, 3, 4)),
              ((5, 1, 2, 3), (4, 3, 2)), ((3,), (2, 3, 4)), ((2, 4, 3), (3,)), ((1, 3), (3, 1)), ((0, 3), (3, 4)),
              ((2, 0), (0, 4)), ((2, 3), (3, 0)), ((0, 2, 3), (3, 4)), ((17, 33), (33, 19)), ((1, 64), (64, 70)), ((2, 1, 1, 1, 3),
                                                                                                       (3, 2))]
    for a, b in shapes:
        large = max(a) > 9
        x, y = (f.integers(-3, 3, *s).astype(np.float32) if large else f.normal(*s) for s in (a, b))
        f.row("MatMul", [x, y], np.asarray(np.matmul(x.astype(np.float64), y.astype(np.float64))).astype(np.float32), opset=13,
              shape_only=False, tolerance=(1e-5, 1e-5))
    for dtype in (np.float64, np.float16, ml_dtypes.bfloat16):
        x, y = f.normal(2, 3).astype(dtype), f.normal(3, 4).astype(dtype)
        f.row("MatMul", [x, y], np.matmul(x.astype(np.float64), y.astype(np.float64)).astype(dtype), opset=13)
    for dtype in (np.int32, np.int64, np.uint32, np.uint64):
        x = I([[1, np.iinfo(dtype).max], [2, 3]], dtype)
        with np.errstate(all="ignore"):
            f.row("MatMul", [x, x], np.matmul(x, x), opset=13)
    f.row("MatMul", [I([[np.inf, 0], [np.nan, 1]], np.float32), I([[0, 1], [2, 3]], np.float32)],
          I([[np.nan, np.inf], [np.nan, np.nan]], np.float32), opset=13)
    f.row("MatMul", [f.normal(2, 3), f.normal(4, 2)], fails="3", opset=13)
    f.row("MatMul", [np.float32(1), f.normal(2)], fails="scalar", opset=13)
    f.row("MatMul", [f.normal(2, 2, 3), f.normal(3, 3, 4)], fails="roadcast", opset=13)

    def small(*shape):
        return f.integers(-3, 3, *shape).astype(np.float32)

    for ta in (0, 1):
        for tb in (0, 1):
            for c in (None, (), (4,), (2, 1), (2, 4), (1, 4), (1, 1)):
                a, b = f.normal(2, 3), f.normal(3, 4)
                k = None if c is None else f.normal(*c)
                alpha, beta = 0.5, 2.0
                want = alpha * a.astype(np.float64) @ b + (0 if k is None else beta * k)
                inputs = [a.T.copy() if ta else a, b.T.copy() if tb else b] + ([k] if k is not None else [])
                f.row("Gemm", inputs, want.astype(np.float32), opset=13, alpha=alpha, beta=beta, transA=ta, transB=tb)
    a, b, c = I([[1, 2], [3, 4]]), I([[5, 6], [7, 8]]), I([1, 2])
    for dtype in (np.int32, np.int64, np.uint32, np.uint64):
        f.row("Gemm", [a.astype(dtype), b.astype(dtype), c.astype(dtype)], (a @ b + c).astype(dtype), opset=13)
    for dtype in (np.float64, np.float16, ml_dtypes.bfloat16):
        f.row("Gemm", [a.astype(dtype), b.astype(dtype), c.astype(dtype)], (a @ b + c).astype(dtype), opset=13)
    f.row("Gemm", [np.zeros((2, 0), np.float32), np.zeros((0, 3), np.float32), I([1, 2, 3], np.float32)],
          np.tile(I([1, 2, 3], np.float32), (2, 1)), opset=13)
    f.row("Gemm", [np.zeros((0, 2), np.float32), np.zeros((2, 3), np.float32)], np.zeros((0, 3), np.float32), opset=13)
    f.row("Gemm", [f.normal(2, 3), f.normal(3, 4), f.normal(3)], fails="roadcast", opset=13)
    f.row("Gemm", [f.normal(2, 3), f.normal(3, 4), f.normal(4)], opset=6, oracle="ref", beta=0.5, broadcast=1)
    f.row("Gemm", [small(33, 20), small(20, 70), small(70)], opset=13)
    f.row("Gemm", [small(33, 20), small(70, 20), small(70)], opset=13, transB=1)


def integer_products(f):
    for ta in (np.int8, np.uint8):
        for tb in (np.int8, np.uint8):
            a = f.integers(np.iinfo(ta).min, np.iinfo(ta).max, 3, 4, dtype=ta)
            b = f.integers(np.iinfo(tb).min, np.iinfo(tb).max, 4, 2, dtype=tb)
            az, bz = I(np.iinfo(ta).max, ta), I(3, tb)
            wide = (a.astype(np.int32) - int(az)) @ (b.astype(np.int32) - 3)
            f.row("MatMulInteger", [a, b], a.astype(np.int32) @ b.astype(np.int32), opset=10)
            f.row("MatMulInteger", [a, b, az, bz], wide, opset=10)
            f.row("MatMulInteger", [a, b, None, I([1, 2], tb)], a.astype(np.int32) @ (b.astype(np.int32) - I([1, 2], np.int32)), opset=10)
            f.row("MatMulInteger", [a, b, I([1, 2, 3], ta)], (a.astype(np.int32) - I([[1], [2], [3]])).astype(np.int32)
                  @ b.astype(np.int32), opset=10)
            if ta == tb or ta == np.uint8:
                s = np.float32
                y = np.rint(wide * (0.02 * 0.03 / 0.5)) + 5
                f.row("QLinearMatMul", [a, s(0.02), az, b, s(0.03), bz, s(0.5), I(5, ta)],
                      np.clip(y, np.iinfo(ta).min, np.iinfo(ta).max).astype(ta), opset=21)
            x = f.integers(np.iinfo(ta).min, np.iinfo(ta).max, 1, 2, 4, 4, dtype=ta)
            w = f.integers(np.iinfo(tb).min, np.iinfo(tb).max, 3, 2, 2, 2, dtype=tb)
            if tb == np.uint8 or True:
                f.row("ConvInteger", [x, w, I(7, ta)], convolve(x.astype(np.int64) - 7, w.astype(np.int64)).astype(np.int32), opset=10)
                f.row("ConvInteger", [x, w, I(7, ta), I([1, 2, 3], tb)],
                      convolve(x.astype(np.int64) - 7, w.astype(np.int64) - I([1, 2, 3]).reshape(3, 1, 1, 1)).astype(np.int32),
                      opset=10, why="a zero point for each output channel, as the text of w_zero_point says")
                z = x.copy()
                f.row("ConvInteger", [z, w, I(7, ta)], convolve(np.pad(z.astype(np.int64) - 7, [(0, 0), (0, 0), (1, 1), (1, 1)]),
                                                              w.astype(np.int64), 2).astype(np.int32), opset=10,
                      pads=[1, 1, 1, 1], strides=[2, 2])
    f.row("MatMulInteger", [np.zeros((2, 0), np.uint8), np.zeros((0, 3), np.uint8)], np.zeros((2, 3), np.int32), opset=10)
    x, w = f.integers(0, 255, 1, 2, 4, 4, dtype=np.uint8), f.integers(-128, 127, 3, 2, 3, 3, dtype=np.int8)
    b = f.integers(-500, 500, 3, dtype=np.int32)
    ws, wz = I([0.01, 0.02, 0.03], np.float32), I([0, 0, 0], np.int8)
    acc = convolve(x.astype(np.int64) - 128, w.astype(np.int64)) + b.reshape(1, 3, 1, 1)
    y = np.rint(acc * (0.05 * ws.astype(np.float64) / 0.4).reshape(1, 3, 1, 1)) + 100
    f.row("QLinearConv", [x, np.float32(0.05), I(128, np.uint8), w, ws, wz, np.float32(0.4), I(100, np.uint8), b],
          np.clip(y, 0, 255).astype(np.uint8), opset=10)


def convolve(x, w, stride=1):
    """A plain convolution, for integers, without padding."""
    n, _, h, v = x.shape
    m, _, kh, kw = w.shape
    oh, ow = (h - kh) // stride + 1, (v - kw) // stride + 1
    y = np.zeros((n, m, oh, ow), np.int64)
    for i in range(oh):
        for j in range(ow):
            y[:, :, i, j] = np.einsum("nchw,mchw->nm", x[:, :, i * stride:i * stride + kh, j * stride:j * stride + kw], w)
    return y


def einsum(f):
    cases = [("ij,jk->ik", (2, 3), (3, 4)), ("ij,jk", (2, 3), (3, 4)), ("ij->ji", (2, 3)), ("ii->i", (3, 3)), ("ii", (3, 3)),
             ("ij->", (2, 3)), ("i,i", (3,), (3,)), ("i,j->ij", (2,), (3,)), ("bij,bjk->bik", (2, 2, 3), (2, 3, 2)),
             ("...ij,...jk->...ik", (2, 2, 3), (3, 4)), ("...ij->...ji", (2, 2, 3)), ("ij...,jk...->ik...", (2, 3, 2), (3, 2, 2)),
             ("abc,cd,def->abef", (2, 1, 3), (3, 2), (2, 2, 2)), ("a b, b c -> a c", (2, 3), (3, 2)), ("ij,ij->ij", (2, 3), (2, 3)),
             ("ijk->k", (2, 3, 2)), ("iij->ij", (2, 2, 3)), (",ij->ij", (), (2, 3)), ("bhqd,bhkd->bhqk", (1, 2, 3, 4), (1, 2, 2, 4)),
             ("ba", (2, 3)), ("...,...", (2, 3), (3,)), ("i...->...", (2, 3)), ("Ab,bA->A", (2, 3), (3, 2)), ("ij,j->i", (0, 3), (3,)),
             ("ij,jk->ik", (2, 0), (0, 4)), ("...i,...i->...", (2, 1, 3), (4, 3)), ("ab,ab,ab->", (2, 2), (2, 2), (2, 2))]
    for equation, *shapes in cases:
        x = [f.normal(*s) for s in shapes]
        f.row("Einsum", x, np.asarray(np.einsum(equation.replace(" ", ""), *[v.astype(np.float64) for v in x])).astype(np.float32),
              opset=12, equation=equation)
    for dtype in (np.float64, np.int32, np.int64, np.float16, np.uint8):
        x, y = f.integers(0, 5, 2, 3).astype(dtype), f.integers(0, 5, 3, 2).astype(dtype)
        f.row("Einsum", [x, y], np.einsum("ij,jk->ki", x, y), opset=12, equation="ij,jk->ki")
    for equation, *shapes in (("ij,jk->ik", (2, 3), (4, 2)), ("ij->ijk", (2, 3)), ("ijk->i", (2, 3)), ("i.j->i", (2, 3)),
                              ("ij->ii", (2, 3)), ("ij,jk->ik", (2, 3)), ("i1->i", (2, 3)), ("ij-ji", (2, 3)), ("->", (2,))):
        f.row("Einsum", [f.normal(*s) for s in shapes], fails="onnx.Einsum", opset=12, equation=equation)


def attention(f):
    for q, k, v, attrs in (((1, 2, 3, 4), (1, 2, 5, 4), (1, 2, 5, 4), {}), ((1, 4, 3, 4), (1, 2, 5, 4), (1, 2, 5, 6), {}),
                           ((2, 2, 3, 4), (2, 2, 3, 4), (2, 2, 3, 4), {"is_causal": 1}),
                           ((1, 2, 3, 4), (1, 2, 5, 4), (1, 2, 5, 4), {"scale": 0.3, "softcap": 2.0})):
        f.row("Attention", [f.normal(*q), f.normal(*k), f.normal(*v)], opset=23, oracle="ref", tolerance=(1e-4, 1e-5), **attrs)
    f.row("Attention", [f.normal(1, 3, 8), f.normal(1, 5, 8), f.normal(1, 5, 8)], opset=23, oracle="ref", q_num_heads=2,
          kv_num_heads=2, tolerance=(1e-4, 1e-5))
    mask = I([[True, False, True, True, False]] * 3)
    f.row("Attention", [f.normal(1, 2, 3, 4), f.normal(1, 2, 5, 4), f.normal(1, 2, 5, 4), mask], opset=23, oracle="ref",
          tolerance=(1e-4, 1e-5))
    f.row("Attention", [f.normal(1, 2, 3, 4), f.normal(1, 2, 5, 4), f.normal(1, 2, 5, 4), f.normal(3, 5)], opset=23, oracle="ref",
          tolerance=(1e-4, 1e-5))
    for attrs in ({}, {"interleaved": 1}, {"rotary_embedding_dim": 4}):
        d = attrs.get("rotary_embedding_dim", 8) // 2
        f.row("RotaryEmbedding", [f.normal(1, 2, 3, 8), f.normal(5, d), f.normal(5, d), I([[0, 4, 2]])], opset=23, oracle="ref",
              **attrs)
    f.row("RotaryEmbedding", [f.normal(1, 3, 16), f.normal(5, 4), f.normal(5, 4), I([[0, 4, 2]])], opset=23, oracle="ref", num_heads=2)
    for shape in ((3, 3), (2, 2, 2), (1, 1), (2, 0, 3, 3)):
        x = f.normal(*shape)
        f.row("Det", [x], np.asarray(np.linalg.det(x.astype(np.float64))).astype(np.float32), opset=22)


def families():
    f = Family("products", 51)
    products(f)
    yield f
    f = Family("integer_products", 52)
    integer_products(f)
    yield f
    f = Family("einsum_attention", 53)
    einsum(f)
    attention(f)
    yield f
