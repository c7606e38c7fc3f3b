"""Rows of elementwise ops: every dtype, broadcasting, zero-size, scalars, NaN and infinities, integer extremes."""

import ml_dtypes
import numpy as np

from row import Family

FLOATS = [np.float32, np.float64, np.float16, ml_dtypes.bfloat16]
SIGNED = [np.int8, np.int16, np.int32, np.int64]
UNSIGNED = [np.uint8, np.uint16, np.uint32, np.uint64]
INTEGERS = SIGNED + UNSIGNED

SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.25, -7.0, 40.0, -40.0, np.inf, -np.inf, np.nan]


def in_double(function, *inputs):
    """The function of the inputs in double precision, rounded to the dtype of the first."""
    with np.errstate(all="ignore"):
        wide = [np.asarray(x).astype(np.float64) for x in inputs]
        return np.asarray(function(*wide)).astype(np.asarray(inputs[0]).dtype)


def erf(x):
    import math

    return np.vectorize(math.erf, otypes=[np.float64])(x)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softplus(x):
    return np.logaddexp(0, x)


FUNCTIONS = {
    "Abs": np.abs, "Acos": np.arccos, "Acosh": np.arccosh, "Asin": np.arcsin, "Asinh": np.arcsinh, "Atan": np.arctan,
    "Atanh": np.arctanh, "Ceil": np.ceil, "Cos": np.cos, "Cosh": np.cosh, "Erf": erf, "Exp": np.exp, "Floor": np.floor,
    "Log": np.log, "Neg": np.negative, "Reciprocal": np.reciprocal, "Round": np.rint, "Sigmoid": sigmoid,
    "Sin": np.sin, "Sinh": np.sinh, "Softplus": softplus, "Sqrt": np.sqrt, "Tan": np.tan, "Tanh": np.tanh,
    "Softsign": lambda x: np.where(np.isinf(x), np.sign(x), x / (1 + np.abs(x))),
}


def unary(f):
    for op, function in FUNCTIONS.items():
        values = [v for v in SPECIAL if not (op == "Softsign" and np.isinf(v))]
        for dtype in FLOATS:
            x = np.array(values, dtype)
            if op in ("Cosh", "Sinh", "Exp") and dtype == np.float16:
                x = np.clip(x, -9, 9)  # within the dtype
            f.row(op, [x], in_double(function, x), opset=22)
        f.row(op, [np.zeros((0, 3), np.float32)], np.zeros((0, 3), np.float32), opset=22)
        x = np.float32(0.75)
        f.row(op, [np.array(x)], in_double(function, np.array(x)), opset=22)
    for dtype in SIGNED:
        x = np.array([np.iinfo(dtype).min, -3, 0, 5, np.iinfo(dtype).max], dtype)
        with np.errstate(all="ignore"):
            f.row("Abs", [x], np.abs(x))
            f.row("Neg", [x], np.negative(x))
        f.row("Sign", [x], np.sign(x))
        f.row("Relu", [x], np.maximum(x, 0))
    for dtype in UNSIGNED:
        x = np.array([0, 5, np.iinfo(dtype).max], dtype)
        f.row("Abs", [x], x)
        f.row("Sign", [x], np.sign(x))
    for dtype in FLOATS:
        x = np.array(SPECIAL, dtype)
        f.row("Sign", [x], np.sign(x.astype(np.float64)).astype(dtype))
        f.row("Relu", [x], np.maximum(x.astype(np.float64), 0).astype(dtype))
        f.row("IsNaN", [x], np.isnan(x), opset=20)
        f.row("IsInf", [x], np.isinf(x), opset=20)
        f.row("IsInf", [x], np.isinf(x) & (x < 0), opset=20, detect_positive=0)
        f.row("IsInf", [x], np.zeros(x.shape, bool), opset=20, detect_positive=0, detect_negative=0)
    f.row("Not", [np.array([True, False])], np.array([False, True]))
    for dtype in INTEGERS:
        x = np.array([0, 1, np.iinfo(dtype).max, np.iinfo(dtype).min], dtype)
        f.row("BitwiseNot", [x], ~x)


def activations(f):
    finite = np.array([0.0, -0.0, 0.3, -0.7, 2.0, -2.5, 7.0, -9.0, 100.0, -100.0, np.nan])
    elu = float(np.float32(0.7))  # attributes are single precision
    scale, alpha = float(np.float32(1.0507010221481323)), float(np.float32(1.6732631921768188))
    table = {
        "Elu": ({"alpha": 0.7}, lambda x: np.where(x < 0, elu * np.expm1(x), x)),
        "Celu": ({"alpha": 2.0}, lambda x: np.maximum(0, x) + np.minimum(0, 2 * np.expm1(x / 2))),
        "Selu": ({}, lambda x: scale * np.where(x > 0, x, alpha * np.expm1(x))),
        "LeakyRelu": ({"alpha": 0.25}, lambda x: np.where(x < 0, 0.25 * x, x)),
        "ThresholdedRelu": ({"alpha": 1.5}, lambda x: np.where(x > 1.5, x, 0)),
        "HardSigmoid": ({"alpha": 0.25, "beta": 0.5}, lambda x: np.maximum(0, np.minimum(1, 0.25 * x + 0.5))),
        "HardSwish": ({}, lambda x: x * np.maximum(0, np.minimum(1, x / 6 + 0.5))),
        "Mish": ({}, lambda x: x * np.tanh(softplus(x))),
        "Gelu": ({}, lambda x: 0.5 * x * (1 + erf(x / np.sqrt(2)))),
        "Shrink": ({"lambd": 0.5, "bias": 0.25}, lambda x: np.where(x < -0.5, x + 0.25, np.where(x > 0.5, x - 0.25, 0))),
    }
    for op, (attrs, function) in table.items():
        for dtype in [np.float32, np.float64, np.float16] + ([ml_dtypes.bfloat16] if op not in ("Celu", "Shrink") else []):
            if op == "Celu" and dtype != np.float32:
                continue
            x = finite.astype(dtype)
            if op in ("ThresholdedRelu", "Shrink"):
                x = x[:-1]  # comparisons with NaN: not said
            f.row(op, [x], in_double(function, x), opset=22, **attrs)
        f.row(op, [np.zeros((2, 0), np.float32)], np.zeros((2, 0), np.float32), opset=22, **attrs)
    x = finite.astype(np.float32)
    f.row("Gelu", [x], in_double(lambda v: 0.5 * v * (1 + np.tanh(np.sqrt(2 / np.pi) * (v + 0.044715 * v**3))), x),
          approximate="tanh")
    f.row("Swish", [x], in_double(lambda v: v * sigmoid(0.5 * v), x), opset=24, alpha=0.5)
    for dtype in INTEGERS:
        x = np.array([0, 1, 2, 3, 100], dtype)
        f.row("Shrink", [x], np.where(x > 2, x - 1, 0).astype(dtype), opset=9, lambd=2.0, bias=1.0)


def wrapped(function, a, b):
    """Integer arithmetic modulo two to the bits."""
    dtype, bits = a.dtype, a.dtype.itemsize * 8
    out = [function(int(x), int(y)) % (1 << bits) for x, y in zip(*(v.reshape(-1) for v in np.broadcast_arrays(a, b)))]
    return np.array(out, np.uint64).astype(f"u{a.dtype.itemsize}").view(dtype).reshape(np.broadcast(a, b).shape)


def truncated(x, y):
    q = abs(x) // abs(y)
    return q if (x < 0) == (y < 0) else -q


def arithmetic(f):
    plain = {"Add": lambda x, y: x + y, "Sub": lambda x, y: x - y, "Mul": lambda x, y: x * y, "Div": truncated}
    for dtype in INTEGERS:
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
        a = np.array([[low], [high], [7], [1]], dtype)
        b = np.array([high, 2, 3] + ([-1, -2] if low else [1]), dtype)
        for op, function in plain.items():
            f.row(op, [a, b], wrapped(function, a, b), opset=14)
        f.row("Div", [a, np.array([1, 0], dtype)], fails="integer division by zero", opset=14)
        f.row("Mod", [a, np.array(0, dtype)], fails="integer division by zero", opset=13)
        f.row("Mod", [a, b], wrapped(lambda x, y: x % y, a, b), opset=13)
        f.row("Mod", [a, b], wrapped(lambda x, y: x - y * truncated(x, y), a, b), opset=13, fmod=1)
        f.row("Max", [a, b], np.maximum(a, b), opset=13)
        f.row("Min", [a, b, np.array(5, dtype)], np.minimum(np.minimum(a, b), np.array(5, dtype)), opset=13)
        if dtype in (np.int32, np.int64):
            base, power = np.array([2, -2, 3, 0, -1, 10], dtype), np.array([5, 3, 0, 0, 7, 9], dtype)
            f.row("Pow", [base, power], base**power, opset=15)
        for op, function in (("BitwiseAnd", np.bitwise_and), ("BitwiseOr", np.bitwise_or), ("BitwiseXor", np.bitwise_xor)):
            f.row(op, [a, b], function(a, b), opset=18)
    for dtype in FLOATS:
        a, b = np.array(SPECIAL, dtype).reshape(-1, 1), np.array([2.0, -0.5, 0.0, -0.0, np.inf, np.nan], dtype)
        for op, function in {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": np.divide}.items():
            f.row(op, [a, b], in_double(function, a, b), opset=14)
        f.row("Max", [a, b], in_double(np.maximum, a, b), opset=13)
        f.row("Min", [a, b], in_double(np.minimum, a, b), opset=13)
        f.row("Pow", [a, b], in_double(np.power, a, b), opset=15)
        finite = np.array([5.5, -5.5, 7.0, -0.5], dtype).reshape(-1, 1)
        f.row("Mod", [finite, b], in_double(np.fmod, finite, b), opset=13, fmod=1)
        f.row("Mean", [a, b, np.array(3, dtype)], in_double(lambda x, y, z: (x + y + z) / 3, a, b, np.array(3, dtype)),
              opset=13, tolerance=(1e-2, 1e-2) if dtype in FLOATS[2:] else None)
        f.row("Sum", [a, b], in_double(np.add, a, b), opset=13)
        f.row("PRelu", [a, b], in_double(lambda x, s: np.where(x < 0, x * s, x), a, b), opset=16)
    broadcasts = [((), ()), ((3,), ()), ((), (2, 3)), ((2, 1, 3), (4, 1)), ((0,), (1,)), ((2, 0), (2, 1)), ((0, 3), ()),
                  ((1, 1, 1), (5,)), ((3, 1, 2, 1), (2, 1, 4)), ((1,) * 8, (2,) * 8), ((1, 0), (4, 1))]
    for sa, sb in broadcasts:
        for op, function in {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Less": np.less}.items():
            a, b = f.normal(*sa), f.normal(*sb)
            f.row(op, [a, b], function(a, b), opset=14 if op != "Less" else 13)
        c, x, y = f.integers(0, 1, *sa).astype(bool), f.integers(-9, 9, *sb), np.int64(4)
        f.row("Where", [c, x, y], np.where(c, x, y), opset=16)
    f.row("Add", [f.normal(2, 3), f.normal(2)], fails="broadcast", opset=14)
    f.row("Add", [f.normal(2, 0), f.normal(2, 3)], fails="broadcast", opset=14)
    for dtype in UNSIGNED:
        x, bits = np.array([1, 3, 128, np.iinfo(dtype).max], dtype), dtype().itemsize * 8
        by = np.array([0, 1, bits - 1, 3], dtype)
        f.row("BitShift", [x, by], x << by, opset=11, direction="LEFT")
        f.row("BitShift", [x, by], x >> by, opset=11, direction="RIGHT")
    for t, p in ((np.float32, np.int64), (np.float32, np.float64), (np.int32, np.float32), (np.int64, np.int32),
                 (np.float64, np.float32), (np.float16, np.float32), (np.float32, np.uint8)):
        x, y = np.array([1, 2, 3, 4], t), np.array([0, 1, 2, 3], p)
        f.row("Pow", [x, y], np.power(x.astype(np.float64), y.astype(np.float64)).astype(t), opset=15)


def comparisons(f):
    numbers = INTEGERS + FLOATS
    for dtype in numbers:
        if dtype in INTEGERS:
            a = np.array([np.iinfo(dtype).min, 0, 1, 100, np.iinfo(dtype).max], dtype)
            b = a[::-1].copy().reshape(-1, 1)
        else:
            a = np.array([0.0, -0.0, 1.5, np.inf, -np.inf, np.nan], dtype)
            b = a.reshape(-1, 1)
        for op, function in {"Less": np.less, "LessOrEqual": np.less_equal, "Greater": np.greater,
                             "GreaterOrEqual": np.greater_equal, "Equal": np.equal}.items():
            f.row(op, [a, b], function(a, b), opset=16 if op.endswith("OrEqual") else 13)
        one, high = np.array(1, dtype), np.array(100, dtype)
        f.row("Clip", [a, one, high], np.minimum(np.maximum(a, one), high), opset=13)
        f.row("Clip", [a, None, one], np.minimum(a, one), opset=13)
        f.row("Clip", [a, high], np.maximum(a, high), opset=13)
        f.row("Clip", [a], a, opset=13)
        f.row("Where", [np.array([True, False]).reshape(2, 1, 1), a, b], np.where(np.array([True, False]).reshape(2, 1, 1), a,
                                                                             b), opset=16)
    logic = [np.array([False, False, True, True]), np.array([[False, True, False, True]])]
    for op, function in {"And": np.logical_and, "Or": np.logical_or, "Xor": np.logical_xor, "Equal": np.equal}.items():
        f.row(op, logic, function(*logic), opset=13)
    words = [np.array(["a", "", "b"], object), np.array(["a", "x", "B"], object)]
    f.row("Equal", words, np.array([True, False, False]), opset=19)
    f.row("Where", [np.array([True, False, True]), *words], np.array(["a", "x", "b"], object), opset=16)


def families():
    f = Family("elementwise_unary", 1)
    unary(f)
    activations(f)
    yield f
    f = Family("elementwise_binary", 2)
    arithmetic(f)
    yield f
    f = Family("comparison", 3)
    comparisons(f)
    yield f
