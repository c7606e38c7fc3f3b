"""Writes build/demo: the wheel's voice activity detector with a custom op, acme.softsign, as a limiter before it.

ONNX Runtime has no such op; the expected outputs are its own with ONNX's Softsign in the same place.
"""

import sys

import onnx
from onnx import helper, numpy_helper

import cases

SOURCE = cases.ROOT / "build" / "models" / "silero-vad"
OUTPUT = cases.ROOT / "build" / "demo"


def with_limiter(model, op, domain):
    """The model with `op` between its first input, now named audio, and what used that."""
    result = onnx.ModelProto()
    result.CopyFrom(model)
    port = result.graph.input[0]
    result.graph.node.insert(0, helper.make_node(op, ["audio"], [port.name], name="limiter", domain=domain))
    port.name = "audio"
    if domain:
        result.opset_import.append(helper.make_opsetid(domain, 1))
    return result


def main():
    model = onnx.load(SOURCE / "model.onnx")
    custom, standard = with_limiter(model, "softsign", "acme"), with_limiter(model, "Softsign", "")
    session = cases.session(standard.SerializeToString())
    names = [value.name for value in standard.graph.input]
    sets = []
    for folder in sorted(SOURCE.glob("test_data_set_*")):
        inputs = [numpy_helper.to_array(onnx.load_tensor(folder / f"input_{i}.pb")) for i in range(len(names))]
        sets.append((inputs, session.run(None, dict(zip(names, inputs)))))
    cases.write_case(OUTPUT, custom, sets)
    (OUTPUT / "tolerances.txt").write_text("default 1e-4 1e-5\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
