"""Writes ONNX test cases of packages' ops: a model, its inputs, and the outputs that somebody else computed.

Used by the scripts beside it, one a package; the cases they write are committed. A case may hold several nodes, each
with inputs of its own, so that one model covers an op.
"""

import pathlib
import shutil

import numpy as np
from onnx import TensorProto, helper, numpy_helper

HERE = pathlib.Path(__file__).resolve().parent
ONNX_OPSET = 20


def _info(name, array):
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)


class Case:
    """One test case: node() adds a node with values for its inputs and outputs; write() makes the files."""

    def __init__(self, package, name, opset=ONNX_OPSET, weights=False):
        """weights: operands are initializers, not inputs. Nothing folds them where the op is not rlx's own."""
        self.folder, self.name, self.weights = HERE / package / name, name, weights
        self.nodes, self.inputs, self.outputs = [], [], []
        self.opsets = {"": opset}

    def node(self, op, inputs, outputs, **attributes):
        """op is "domain.Op" or an ONNX op; inputs are arrays, names of values, or None; outputs arrays or None."""
        domain, _, op_type = op.rpartition(".")
        number, names, results = len(self.nodes), [], []
        for i, value in enumerate(inputs):
            if isinstance(value, np.ndarray):
                names.append(f"x{number}_{i}")
                self.inputs.append((names[-1], np.asarray(value, order="C")))
            else:
                names.append(value or "")
        for i, value in enumerate(outputs):
            results.append("" if value is None else f"y{number}_{i}")
            if isinstance(value, np.ndarray):
                self.outputs.append((results[-1], np.asarray(value, order="C")))
        if domain:
            self.opsets[domain] = 1
        self.nodes.append(helper.make_node(op_type, names, results, domain=domain, **attributes))
        return results

    def write(self):
        fixed, given = (self.inputs, []) if self.weights else ([], self.inputs)
        graph = helper.make_graph(self.nodes, self.name, [_info(*i) for i in given], [_info(*o) for o in self.outputs],
                                  [numpy_helper.from_array(array, name) for name, array in fixed])
        opsets = [helper.make_opsetid(domain, version) for domain, version in self.opsets.items()]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=9, producer_name="rlx")
        data = self.folder / "test_data_set_0"
        shutil.rmtree(self.folder, ignore_errors=True)
        data.mkdir(parents=True)
        (self.folder / "model.onnx").write_bytes(model.SerializeToString(deterministic=True))
        for kind, values in (("input", given), ("output", self.outputs)):
            for i, (name, array) in enumerate(values):
                (data / f"{kind}_{i}.pb").write_bytes(numpy_helper.from_array(array, name).SerializeToString())


def tolerances(package, rtol, atol, **cases):
    lines = [f"default {rtol} {atol}"] + [f"{name} {r} {a}" for name, (r, a) in cases.items()]
    (HERE / package / "tolerances.txt").write_text("\n".join(lines) + "\n")
