"""ONNX test-case folders (model.onnx, test_data_set_N/input_I.pb, output_I.pb) and the stamps of what was generated."""

import hashlib
import pathlib
import shutil

import numpy as np
import onnx
from onnx import numpy_helper

ROOT = pathlib.Path(__file__).resolve().parent.parent


def map_to_proto(value, name):
    """numpy_helper.from_dict, which fails for keys that are strings."""
    text = any(isinstance(key, str) for key in value)
    proto = onnx.MapProto(name=name, key_type=onnx.TensorProto.STRING if text else onnx.TensorProto.INT64)
    if text:
        proto.string_keys.extend(key.encode() for key in value)
    else:
        proto.keys.extend(value)
    proto.values.CopyFrom(numpy_helper.from_list([np.asarray(v) for v in value.values()], ""))
    return proto


def sequence_to_proto(value, name):
    if not (value and isinstance(value[0], dict)):
        return numpy_helper.from_list(value, name)
    proto = onnx.SequenceProto(name=name, elem_type=onnx.SequenceProto.MAP)
    proto.map_values.extend(map_to_proto(v, "") for v in value)
    return proto


def value_to_bytes(value, info):
    """Serialises one input or output, whose ValueInfoProto says what kind of value it is."""
    kind = info.type.WhichOneof("value")
    if isinstance(value, onnx.TensorProto):
        return value.SerializeToString()
    if kind == "map_type":
        return map_to_proto(value, info.name).SerializeToString()
    if kind == "sequence_type":
        return sequence_to_proto(value, info.name).SerializeToString()
    if kind == "optional_type":
        return numpy_helper.from_optional(value, info.name).SerializeToString()
    return numpy_helper.from_array(np.asarray(value), info.name).SerializeToString()


def graph_inputs(model):
    """The inputs that a caller feeds: those without an initializer."""
    constants = {tensor.name for tensor in model.graph.initializer}
    return [value for value in model.graph.input if value.name not in constants]


def write_data_set(folder, model, inputs, outputs):
    folder.mkdir(parents=True)
    for stem, values, infos in (("input", inputs, graph_inputs(model)), ("output", outputs, model.graph.output)):
        for i, value in enumerate(values):
            (folder / f"{stem}_{i}.pb").write_bytes(value_to_bytes(value, infos[i]))


def write_case(folder, model, data_sets, model_bytes=None, external=False):
    """Writes a case anew. model_bytes keeps a file as it was made; external puts the weights into weights.bin."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for i, (inputs, outputs) in enumerate(data_sets):
        write_data_set(folder / f"test_data_set_{i}", model, inputs, outputs)
    path = folder / "model.onnx"
    if external:
        onnx.save_model(model, path, save_as_external_data=True, location="weights.bin", size_threshold=1024)
    else:
        path.write_bytes(model_bytes or model.SerializeToString(deterministic=True))


def session(model):
    """An ONNX Runtime session on one thread; model is a path or bytes."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def stamp_text(*scripts):
    """What generated data depends on: the pinned packages and the scripts."""
    digest = hashlib.sha256()
    for name in ("requirements.txt", "cases.py", *scripts):
        digest.update((ROOT / "tools" / name).read_bytes())
    return digest.hexdigest() + "\n"


def is_current(stamp, text):
    return stamp.is_file() and stamp.read_text() == text


class Tolerances:
    """tolerances.txt of a folder of suites: `case rtol atol` a line, after `default rtol atol`."""

    DEFAULT = (1e-3, 1e-7)

    def __init__(self):
        self.lines = {}

    def add(self, case, rtol, atol):
        if (rtol, atol) != self.DEFAULT:
            if self.lines.setdefault(case, (rtol, atol)) != (rtol, atol):
                raise ValueError(f"case {case} has two tolerances")

    def write(self, path):
        rows = [("default", self.DEFAULT), *sorted(self.lines.items())]
        path.write_text("".join(f"{case} {rtol:g} {atol:g}\n" for case, (rtol, atol) in rows))
