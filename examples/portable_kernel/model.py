"""Writes the example's model: a product, demo.gate, a softmax, as a test case.

Usage: model.py [FOLDER]. The files are committed; this is how they were made.
"""

import pathlib
import sys

import numpy as np
from onnx import TensorProto, helper, numpy_helper


def main():
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else __file__).resolve()
    folder = folder if folder.is_dir() else folder.parent
    rng = np.random.default_rng(0)
    weight = rng.standard_normal((4, 6)).astype(np.float32)
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "weight"], ["h"], name="dense"),
            helper.make_node("gate", ["h", "gates"], ["g"], name="custom", domain="demo"),
            helper.make_node("Softmax", ["g"], ["y"], name="softmax", axis=-1),
        ],
        "portable_kernel",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 4]),
            helper.make_tensor_value_info("gates", TensorProto.FLOAT, ["N", 6]),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 6])],
        [numpy_helper.from_array(weight, "weight")],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("demo", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8, producer_name="rlx")
    (folder / "model.onnx").write_bytes(model.SerializeToString(deterministic=True))

    x = rng.standard_normal((5, 4)).astype(np.float32)
    gates = rng.standard_normal((5, 6)).astype(np.float32)
    h = x.astype(np.float64) @ weight
    e = np.exp(h / (1 + np.exp(-gates.astype(np.float64))))
    y = (e / e.sum(axis=1, keepdims=True)).astype(np.float32)
    data = folder / "test_data_set_0"
    data.mkdir(exist_ok=True)
    (data / "input_0.pb").write_bytes(numpy_helper.from_array(x, "x").SerializeToString())
    (data / "input_1.pb").write_bytes(numpy_helper.from_array(gates, "gates").SerializeToString())
    (data / "output_0.pb").write_bytes(numpy_helper.from_array(y, "y").SerializeToString())


if __name__ == "__main__":
    main()
