"""A test row: nodes, inputs, and what must come out, with expected values that nothing of rlx computed.

A row is asked of ONNX's reference evaluator and of ONNX Runtime, or the caller computed it with NumPy or ml_dtypes.
Where the two oracles differ the caller must say which one is right by the specification, and why; the reason goes into
the file. `Family.write` makes tests/rows/NAME.txt, whose format tests/support/rows.h says.
"""

import pathlib
import warnings

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
from onnx import helper
from onnx.reference import ReferenceEvaluator

ROOT = pathlib.Path(__file__).resolve().parents[2]
OPSET = 23
T = onnx.TensorProto

# ONNX's number of a dtype, its name in rlx's text form, and NumPy's type.
DTYPES = [
    (T.FLOAT, "float", np.float32), (T.UINT8, "uint8", np.uint8), (T.INT8, "int8", np.int8),
    (T.UINT16, "uint16", np.uint16), (T.INT16, "int16", np.int16), (T.INT32, "int32", np.int32),
    (T.INT64, "int64", np.int64), (T.STRING, "string", np.object_), (T.BOOL, "bool", np.bool_),
    (T.FLOAT16, "float16", np.float16), (T.DOUBLE, "double", np.float64), (T.UINT32, "uint32", np.uint32),
    (T.UINT64, "uint64", np.uint64), (T.COMPLEX64, "complex64", np.complex64),
    (T.COMPLEX128, "complex128", np.complex128), (T.BFLOAT16, "bfloat16", ml_dtypes.bfloat16),
    (T.FLOAT8E4M3FN, "float8e4m3fn", ml_dtypes.float8_e4m3fn),
    (T.FLOAT8E4M3FNUZ, "float8e4m3fnuz", ml_dtypes.float8_e4m3fnuz), (T.FLOAT8E5M2, "float8e5m2", ml_dtypes.float8_e5m2),
    (T.FLOAT8E5M2FNUZ, "float8e5m2fnuz", ml_dtypes.float8_e5m2fnuz), (T.UINT4, "uint4", ml_dtypes.uint4),
    (T.INT4, "int4", ml_dtypes.int4), (T.FLOAT4E2M1, "float4e2m1", ml_dtypes.float4_e2m1fn),
    (T.FLOAT8E8M0, "float8e8m0", ml_dtypes.float8_e8m0fnu), (T.UINT2, "uint2", ml_dtypes.uint2),
    (T.INT2, "int2", ml_dtypes.int2),
]
NUMBER = {np.dtype(t): number for number, _, t in DTYPES}
NAME = {np.dtype(t): name for _, name, t in DTYPES}
NUMPY = {number: np.dtype(t) for number, _, t in DTYPES}
BITS = {"float16": np.uint16, "bfloat16": np.uint16}
SMALL_INTEGERS = {"int4", "uint4", "int2", "uint2"}

# How far a float may be off: relative and absolute, unless a row says otherwise. The same table is in the test.
TOLERANCE = {"float": (1e-5, 1e-6), "double": (1e-9, 1e-12), "float16": (2e-3, 1e-5), "bfloat16": (1.6e-2, 1e-5),
             "complex64": (1e-5, 1e-6), "complex128": (1e-9, 1e-12)}


# The dims of their outputs are known only after running.
DYNAMIC = {"ImageDecoder", "NonZero", "Unique", "Compress", "NonMaxSuppression", "StringSplit", "StringNormalizer", "SequenceAt",
           "ConcatFromSequence", "OptionalGetElement"}


class Differs(Exception):
    pass


def array(value):
    """An array of a dtype that ONNX has; strings as objects."""
    value = np.asarray(value)
    return value.astype(object) if value.dtype.kind in "USO" else value


def name_of(value):
    return NAME[value.dtype]


def quoted(text):
    out = ""
    for byte in (text.encode() if isinstance(text, str) else bytes(text)):
        char = chr(byte)
        out += "\\" + char if char in '"\\' else char if 32 <= byte < 127 else f"\\x{byte:02x}"
    return f'"{out}"'


def number_text(x):
    x = float(x)
    if x != x:
        return "nan"
    if x in (float("inf"), float("-inf")):
        return "inf" if x > 0 else "-inf"
    text = repr(x)
    return text[:-2] if text.endswith(".0") else text


def float32_text(x):
    with np.errstate(all="ignore"):
        return number_text(x) if not np.isfinite(x) else np.format_float_scientific(x, trim="-", exp_digits=1) if (
            x != 0 and not 1e-4 <= abs(x) < 1e7) else np.format_float_positional(x, trim="-")


def elements(value):
    name, flat = name_of(value), value.reshape(-1)
    if name == "string":
        return [quoted(x) for x in flat]
    if name == "bool":
        return [str(int(x)) for x in flat]
    if name in BITS or name.startswith("float8") or name.startswith("float4"):
        return [str(int(x)) for x in flat.view(BITS.get(name, np.uint8))]
    if name in SMALL_INTEGERS or value.dtype.kind in "iu":
        return [str(int(x)) for x in flat]
    if name.startswith("complex"):
        one = float32_text if name == "complex64" else number_text
        part = np.float32 if name == "complex64" else np.float64
        return [text for x in flat for text in (one(part(x.real)), one(part(x.imag)))]
    return [(float32_text if name == "float" else number_text)(x) for x in flat]


def type_text(value):
    dims = ",".join(str(d) for d in value.shape)
    return f"{name_of(value)}[{dims}]" if value.ndim else name_of(value)


def tensor_text(value):
    return f"{type_text(value)} {{{', '.join(elements(value))}}}"


def attribute_text(value):
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(attribute_text(v) for v in value) + "]"
    if isinstance(value, (str, bytes)):
        return quoted(value)
    if isinstance(value, np.ndarray):
        return tensor_text(value)
    if isinstance(value, float):
        text = float32_text(np.float32(value))
        return text if any(c in text for c in ".en") else text + ".0"
    return str(value)


def node_text(op, inputs, outputs, attrs):
    text = f"{', '.join(outputs)} = {op} "
    if attrs:
        pairs = []
        for key, v in attrs.items():
            empty = isinstance(v, list) and not v
            pairs.append(f"{key}{': ints' if empty else ''} = {attribute_text(v)}")
        text += f"<{', '.join(pairs)}> "
    return text + f"({', '.join(inputs)})"


def close(a, b, tolerance):
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    name = name_of(a)
    if name == "string" or name not in TOLERANCE:
        if name.startswith("float"):
            a, b = a.astype(np.float32), b.astype(np.float32)
            return bool(np.all((a == b) | ((a != a) & (b != b))))
        return a.tolist() == b.tolist()
    rtol, atol = tolerance or TOLERANCE[name]
    wide = np.complex128 if name.startswith("complex") else np.float64
    with np.errstate(all="ignore"):
        return bool(np.allclose(a.astype(wide), b.astype(wide), rtol, atol, equal_nan=True))


def model_of(nodes, inputs, outputs, opset):
    names = {n: v for n, v in inputs.items() if v is not None}
    values = [helper.make_tensor_value_info(n, NUMBER[v.dtype], list(v.shape)) for n, v in names.items()]
    results = [helper.make_empty_tensor_value_info(n) for n in outputs]
    graph = helper.make_graph(nodes, "g", values, results)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def by_reference(model, inputs, outputs):
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return [array(v) for v in ReferenceEvaluator(model).run(outputs, inputs)]


def by_runtime(model, inputs, outputs):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    model = onnx.shape_inference.infer_shapes(model)
    if len(model.graph.output) != len([o for o in model.graph.output if o.type.WhichOneof("value")]):
        raise ValueError("no type of an output")
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return [array(v) for v in session.run(outputs, inputs)]


ORACLES = {"ref": by_reference, "ort": by_runtime}


class Family:
    """The rows of one file."""

    def __init__(self, name, seed):
        self.name = name
        self.rng = np.random.default_rng(seed)
        self.text = []
        self.count = 0
        self.bad = []

    def normal(self, *shape, dtype=np.float32, scale=1.0):
        """Random values with three digits."""
        return np.round(self.rng.standard_normal(shape) * scale, 3).astype(dtype)

    def integers(self, low, high, *shape, dtype=np.int64):
        return self.rng.integers(low, high, shape, endpoint=True).astype(dtype)

    def ask(self, nodes, given, outputs, opset, oracle, tolerance):
        """The expected values; oracle: "both", "ref" or "ort"."""
        model = model_of(nodes, given, outputs, opset)
        inputs = {n: v for n, v in given.items() if v is not None}
        answers, errors = {}, {}
        for which in ORACLES if oracle == "both" else [oracle]:
            try:
                answers[which] = ORACLES[which](model, inputs, outputs)
            except Exception as e:  # an oracle that lacks the op or dtype
                errors[which] = str(e).split("\n")[0][:150]
        if not answers:
            raise Differs(f"no oracle: {errors}")
        first = next(iter(answers.values()))
        for which, other in answers.items():
            for a, b in zip(first, other):
                if not close(a, b, tolerance):
                    raise Differs(f"the oracles differ:\n    ref {tensor_text(a)[:300]}\n    ort {tensor_text(b)[:300]}")
        return first

    def row(self, op, inputs, want=None, outputs=1, opset=OPSET, oracle="both", why=None, tolerance=None, fails=None,
            shape_only=False, skip=None, **attrs):
        """inputs: arrays, None left out. want: the outputs, already known, with `why` saying how (None: NumPy).
        fails: the text of the error that must come instead. why: reason of a choice between oracles."""
        inputs = [None if v is None else array(v) for v in inputs]
        names = ["" if v is None else "abcdefghijklmnop"[i] for i, v in enumerate(inputs)]
        results = [f"y{i}" for i in range(outputs)]
        if skip:
            results = ["" if i in skip else r for i, r in enumerate(results)]
        node = helper.make_node(op, names, results, **{k: (helper.make_tensor("", NUMBER[v.dtype], v.shape, v.reshape(-1))
                                                         if isinstance(v, np.ndarray) else v) for k, v in attrs.items()
                                                         if not (isinstance(v, list) and not v)})
        text = node_text(op, names, results, attrs)
        self.add([node], [text], dict(zip(names, inputs)), [r for r in results if r], want, opset, oracle, why, tolerance,
                 fails, shape_only)

    def add(self, nodes, texts, given, outputs, want=None, opset=OPSET, oracle="both", why=None, tolerance=None,
            fails=None, shape_only=False):
        """shape_only: what an output is, not what it holds, and inputs of floats are zero."""
        given = {n: v for n, v in given.items() if v is not None}
        if want is not None:
            want = [array(v) for v in (want if isinstance(want, (list, tuple)) else [want])]
        elif not fails:
            try:
                want = self.ask(nodes, given, outputs, opset, oracle, tolerance)
            except Differs as e:
                self.bad.append(f"{self.name}: {' ; '.join(texts)}\n  " + "\n  ".join(
                    tensor_text(v)[:200] for v in given.values()) + f"\n  {e}")
                return
        lines = [f"row {opset}" + (f" {tolerance[0]:g} {tolerance[1]:g}" if tolerance else "")]
        lines[0] += " dynamic" if any(n.op_type in DYNAMIC for n in nodes) else ""
        if why:
            lines.append("# " + why)
        lines += ["  " + t for t in texts]
        lines += [f"{n} {type_text(v) if shape_only and v.dtype.kind == 'f' and not v.any() else tensor_text(v)}" for n, v in given.items()]
        lines += [f"! {fails}"] if fails else [f"= {n} {type_text(v) if shape_only else tensor_text(v)}"
                                               for n, v in zip(outputs, want)]
        self.text.append("\n".join(lines) + "\n")
        self.count += 1

    def write(self, folder):
        head = f"# Rows of {self.name}: made by tools/rows/write.py; tests/support/rows.h says the format.\n\n"
        (folder / f"{self.name}.txt").write_text(head + "\n".join(self.text))
