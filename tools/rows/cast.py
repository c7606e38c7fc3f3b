"""Rows of casts among all dtypes, and of quantisation."""

import ml_dtypes
import numpy as np
from onnx import TensorProto as T

from row import NAME, NUMPY, Family, array

INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "int4", "uint4", "int2", "uint2"]
FLOATS = ["float", "double", "float16", "bfloat16"]
FLOAT8 = ["float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz"]
NUMBERS = {name: number for number, t in NUMPY.items() for name in [NAME[t]]}


def numpy_of(name):
    return NUMPY[NUMBERS[name]]


def limits(name):
    bits = {"int4": 4, "uint4": 4, "int2": 2, "uint2": 2}.get(name) or numpy_of(name).itemsize * 8
    return (-(1 << bits - 1), (1 << bits - 1) - 1, bits) if name[0] == "i" else (0, (1 << bits) - 1, bits)


def wrap(value, name):
    low, _, bits = limits(name)
    value &= (1 << bits) - 1
    return value - (1 << bits) if low and value >> bits - 1 else value


def integers(values, name):
    if name.endswith("64"):
        return np.array(values, object).astype(numpy_of(name))
    return np.array(values, np.int64).astype(numpy_of(name))


def rounded(x, name):
    """Doubles to a float dtype of 16 bits or more, to the nearest, ties to even, from the exact value."""
    with np.errstate(all="ignore"):
        if name in ("float", "double", "float16"):
            return x.astype(numpy_of(name))
        # bfloat16: ml_dtypes goes by float32, which rounds twice; by integers from float32 rounded to odd instead.
        f = x.astype(np.float32)
        low = np.where(np.abs(f.astype(np.float64)) > np.abs(x), np.nextafter(f, np.float32(0)), f)
        odd = np.where((low.astype(np.float64) != x) & np.isfinite(x), (low.view(np.uint32) | 1).view(np.float32), low)
        return odd.astype(np.float32).astype(ml_dtypes.bfloat16)


def table8(name):
    """(value, bits) of the finite, non-negative numbers of a small float, ascending."""
    codes = np.arange(256 if name != "float4e2m1" else 16, dtype=np.uint8)
    values = codes.view(numpy_of(name)).astype(np.float64)
    return sorted((v, int(c)) for c, v in zip(codes, values) if np.isfinite(v) and not np.signbit(v))


def small(x, name, saturate):
    """One double to float8 or float4 as ONNX's table of Cast says."""
    finite = table8(name)
    largest = finite[-1][0]
    sign = 0x8 if name == "float4e2m1" else 0x80
    zero = 0x80 if name.endswith("uz") else None  # the NaN of the types without negative zero
    nan = zero if zero is not None else 0x7F
    if x != x:
        return nan
    a = abs(x)
    step = largest - finite[-2][0]
    if a >= largest + step / 2 or np.isinf(a):
        past = True
        if a == largest + step / 2:  # a tie goes to the even neighbour
            past = finite[-1][1] % 2 == 1
    else:
        past = False
    if past and not saturate:
        code = nan if name != "float8e5m2" else 0x7C
        return code if code == zero else code | (sign if x < 0 else 0)
    if past or a >= largest:
        code = finite[-1][1]
    else:
        best = min(range(len(finite)), key=lambda i: (abs(finite[i][0] - a), finite[i][1] % 2))
        code = finite[best][1]
    if np.signbit(x) and not (code == 0 and zero is not None):
        code |= sign
    return code


def to_small(x, name, saturate=1):
    return np.array([small(float(v), name, saturate) for v in x], np.uint8).view(numpy_of(name))


def one_to_many(f, x, wants, why=None, opset=25, **attrs):
    """One input cast to several dtypes: a row with a node for each."""
    from onnx import helper

    from row import node_text

    nodes, texts, outputs = [], [], []
    for name in wants:
        out = f"y{len(outputs)}"
        nodes.append(helper.make_node("Cast", ["a"], [out], to=NUMBERS[name], **attrs))
        texts.append(node_text("Cast", ["a"], [out], {"to": NUMBERS[name], **attrs}))
        outputs.append(out)
    f.add(nodes, texts, {"a": array(x)}, outputs, list(wants.values()), opset, why=why)


def casts_from_floats(f):
    values = [0.0, -0.0, 1.0, -1.0, 2.5, -3.5, 0.3, -0.7, 448.0, 449.0, 464.0, 465.0, -500.0, 57344.0, 61440.0, 61441.0,
              1e5, -1e5, 6.1e-5, 5.9e-8, 1e-10, 0.0009765625, 0.017578125, 1.0625, 1.1875, 65504.0, np.inf, -np.inf, np.nan]
    whole = [0.0, 1.9, -1.9, 1.0, -2.0, 0.5, -0.5]
    for source in FLOATS + FLOAT8 + ["float4e2m1"]:
        if source in FLOATS:
            with np.errstate(all="ignore"):
                x = np.array(values).astype(numpy_of(source))
        elif source == "float4e2m1":
            x = np.arange(16, dtype=np.uint8).view(numpy_of(source))
        else:
            x = np.array([0, 1, 7, 8, 0x10, 0x38, 0x45, 0x7B, 0x7E, 0x7F, 0x80, 0x81, 0xB8, 0xC4, 0xFE, 0xFF],
                         np.uint8).view(numpy_of(source))
        wide = x.astype(np.float64)
        wants = {name: rounded(wide, name) for name in FLOATS}
        wants |= {name: to_small(wide, name) for name in FLOAT8}
        one_to_many(f, x, wants)
        one_to_many(f, x, {name: to_small(wide, name, 0) for name in FLOAT8}, saturate=0)
        one_to_many(f, x, {"bool": wide != 0})
        finite = x[np.isfinite(wide)]
        one_to_many(f, finite, {"float4e2m1": to_small(finite.astype(np.float64), "float4e2m1")})
        y = np.array(whole).astype(numpy_of(source))
        down = np.trunc(y.astype(np.float64)).astype(np.int64)
        one_to_many(f, y, {name: integers(down, name) for name in INTEGERS if name in ("int8", "int16", "int32", "int64",
                                                                                    "int4")})
        one_to_many(f, y, {"int2": integers(down, "int2")} if min(down) >= -2 and max(down) <= 1 else
                    {"int64": integers(down, "int64")})
        y = np.array([0.0, 1.9, 1.0, 2.0, 0.5]).astype(numpy_of(source))
        down = np.trunc(y.astype(np.float64)).astype(np.int64)
        one_to_many(f, y, {name: integers(down, name) for name in INTEGERS if name[0] == "u"})
    # Bits to the edge of the wide integers.
    x = np.array([9007199254740992.0, -9223372036854775808.0])
    one_to_many(f, x, {"int64": np.array([9007199254740992, -9223372036854775808])})
    one_to_many(f, np.array([18446744073709549568.0]), {"uint64": np.array([18446744073709549568], np.uint64)})


def casts_from_integers(f):
    for source in INTEGERS + ["bool"]:
        if source == "bool":
            raw, x = [0, 1], np.array([False, True])
        else:
            low, high, _ = limits(source)
            raw = sorted({v for v in (low, low + 1, 0, 1, 2, 3, -1, -2, 100, 127, 128, 255, 256, 16777217, high - 1, high)
                          if low <= v <= high})
            x = integers(raw, source)
        wants = {name: integers([wrap(v, name) for v in raw], name) for name in INTEGERS if name != source}
        one_to_many(f, x, wants)
        exact = {"double": np.array([float(v) for v in raw])}
        for name in ("float", "float16", "bfloat16"):
            # from the exact integer: doubles round 64-bit values first, so only those that a double holds
            fits = np.array([int(float(v)) == v for v in raw])
            if fits.all():
                exact[name] = rounded(np.array([float(v) for v in raw]), name)
        one_to_many(f, x, exact)
        wide = np.array([float(v) for v in raw])
        one_to_many(f, x, {name: to_small(wide, name) for name in FLOAT8 + ["float4e2m1"]})
        one_to_many(f, x, {"bool": np.array([v != 0 for v in raw])} if source != "bool" else {"bool": x})
        one_to_many(f, x, {"string": np.array([str(int(v)) for v in raw], object)}) if source not in (
            "bool", "int4", "uint4", "int2", "uint2") else None
    for shape in ((), (0,), (2, 0, 3)):
        f.row("Cast", [np.zeros(shape, np.float32)], np.zeros(shape, np.int32), opset=25, to=int(T.INT32))
    f.row("Cast", [np.array(["1.5", "-3e2", "NaN", "INF", "-INF", "+7"], object)],
          np.array([1.5, -300, np.nan, np.inf, -np.inf, 7], np.float32), opset=25, to=int(T.FLOAT))
    f.row("Cast", [np.array(["12", "-128", "+5"], object)], np.array([12, -128, 5], np.int8), opset=25, to=int(T.INT8))
    f.row("Cast", [np.array(["x"], object)], fails="no number", opset=25, to=int(T.DOUBLE))
    f.row("CastLike", [np.array([1.5, -2.5], np.float32), np.zeros((3, 3), np.int16)], np.array([1, -2], np.int16), opset=25)


def quantise(f):
    x = np.array([[-1.5, -0.25, 0.0, 0.24], [0.26, 0.5, 100.0, -100.0], [0.75, 1.25, 63.4, 63.6]], np.float32)
    for dtype in (np.int8, np.uint8, np.int16, np.uint16):
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max

        def q(x, scale, zero):
            return np.clip(np.rint(x.astype(np.float64) / scale) + zero, low, high).astype(dtype)

        s, z = np.float32(0.5), np.array(3, dtype)
        f.row("QuantizeLinear", [x, s, z], q(x, 0.5, 3), opset=21)
        ss, zs = np.array([0.5, 0.25, 2], np.float32), np.array([1, 2, 3], dtype)
        want = q(x, ss[:, None], zs[:, None].astype(np.int64))
        f.row("QuantizeLinear", [x, ss, zs], want, opset=21, axis=0)
        f.row("QuantizeLinear", [x, ss, zs], want, opset=21, axis=-2)
        bs = np.array([[0.5, 1], [0.25, 2], [1, 4]], np.float32)
        bz = np.array([[0, 1], [2, 3], [4, 5]], dtype)
        each = np.repeat(bs, 2, 1), np.repeat(bz, 2, 1).astype(np.int64)
        f.row("QuantizeLinear", [x, bs, bz], q(x, *each), opset=21, axis=1, block_size=2)
        codes = np.array([[low, high, 0], [3, 4, 5]], dtype)
        f.row("DequantizeLinear", [codes, s, z], ((codes.astype(np.float64) - 3) * 0.5).astype(np.float32), opset=21)
        ds, dz = np.array([0.5, 0.25, 2], np.float32), np.array([1, 2, 3], dtype)
        f.row("DequantizeLinear", [codes, ds, dz], ((codes.astype(np.float64) - dz) * ds).astype(np.float32), opset=21)
        f.row("DequantizeLinear", [codes, ds], (codes.astype(np.float64) * ds).astype(np.float32), opset=21, axis=-1)
        six = np.arange(12, dtype=dtype).reshape(2, 6)
        bs = np.array([[0.5, 2], [4, 8]], np.float32)
        f.row("DequantizeLinear", [six, bs], (six * np.repeat(bs, 3, 1)).astype(np.float32), opset=21, axis=1, block_size=3)
    f.row("QuantizeLinear", [x, np.float32(0.5)], np.clip(np.rint(x / 0.5), 0, 255).astype(np.uint8), opset=21)
    f.row("QuantizeLinear", [x, np.float32(0.5)], np.clip(np.rint(x / 0.5), -128, 127).astype(np.int8), opset=21,
          output_dtype=int(T.INT8))
    for name in ("int4", "uint4"):
        low, high, _ = limits(name)
        want = integers(np.clip(np.rint(x / 0.5) + 1, low, high).astype(np.int64), name)
        f.row("QuantizeLinear", [x, np.float32(0.5), integers(1, name)], want, opset=21)
        codes = integers(np.arange(low, high + 1), name)
        f.row("DequantizeLinear", [codes, np.float32(0.5), integers(1, name)],
              ((np.arange(low, high + 1) - 1) * 0.5).astype(np.float32), opset=21)
    for name in FLOAT8:
        want = to_small((x.reshape(-1) / 0.5), name).reshape(x.shape)
        zero = np.zeros((), np.uint8).view(numpy_of(name))
        f.row("QuantizeLinear", [x, np.float32(0.5), zero], want, opset=21)
        f.row("DequantizeLinear", [want, np.float32(0.5), zero], (want.astype(np.float32) * 0.5), opset=21)
    for dtype in (np.float16,):
        h, s, z = x.astype(dtype), np.array(0.5, dtype), np.array(3, np.int8)
        f.row("QuantizeLinear", [h, s, z], np.clip(np.rint(x / 0.5) + 3, -128, 127).astype(np.int8), opset=21)
        f.row("DequantizeLinear", [np.array([-128, 0, 127], np.int8), s, z],
              np.array([-65.5, -1.5, 62], dtype), opset=21)
    i = np.array([-100, 5, 2000000], np.int32)
    f.row("QuantizeLinear", [i, np.float32(10), np.array(1, np.int8)], np.array([-9, 1, 127], np.int8), opset=21)
    f.row("DequantizeLinear", [i, np.float32(0.5)], (i * 0.5).astype(np.float32), opset=21)
    f.row("QuantizeLinear", [np.zeros((0, 2), np.float32), np.float32(1), np.array(1, np.uint8)], np.zeros((0, 2), np.uint8),
          opset=21)
    for v in (f.normal(2, 3, scale=3), np.zeros(4, np.float32), np.array([1.0, 5.0], np.float32),
              np.array([-3.0, -1.0], np.float32)):
        f.row("DynamicQuantizeLinear", [v], outputs=3, oracle="both" if v.any() else "ort", opset=11,
              why=None if v.any() else "all zeros: the formula's scale is 0, by which nothing divides; 1 is ONNX Runtime's")


def families():
    f = Family("cast", 11)
    casts_from_floats(f)
    casts_from_integers(f)
    yield f
    f = Family("quantise", 12)
    quantise(f)
    yield f
