"""Generates the ONNX backend tests of the pinned onnx package into build/onnx-suite, as test-case folders.

Usage: tools/suite.py [--output FOLDER]. Does nothing when the folder is up to date. Suites: node, simple,
pytorch-converted, pytorch-operator, light (the package's model tests with its dummy inputs), and light-random (the
same models with random weights, see light_random.py). tolerances.txt beside them has each case's tolerance.
"""

import argparse
import pathlib
import shutil
import sys
import time
import warnings

import numpy as np
import onnx
from onnx.backend.test.loader import load_model_tests

import cases
import light_random

# The package's runner compares bfloat16 outputs with at least two units in the last place.
BFLOAT16_RTOL = 2.0**-6


def add_tolerance(tolerances, case, model):
    rtol = case.rtol
    types = [output.type.tensor_type.elem_type for output in model.graph.output]
    if onnx.TensorProto.BFLOAT16 in types:
        rtol = max(rtol, BFLOAT16_RTOL)
    tolerances.add(case.name, rtol, case.atol)


def write_node(output, tolerances):
    np.random.seed(0)  # some cases draw their data without seeding
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # casts out of range are part of the data
        node_cases = load_model_tests(kind="node")
    for case in node_cases:
        cases.write_case(output / "node" / case.name, case.model, case.data_sets)
        add_tolerance(tolerances, case, case.model)


def copy_shipped(kind, output, tolerances):
    for case in load_model_tests(kind=kind):
        shutil.copytree(case.model_dir, output / kind / case.name)
        add_tolerance(tolerances, case, onnx.load(pathlib.Path(case.model_dir) / "model.onnx"))


def light_cases():
    """(case, path of its model, paths of its expected outputs) of the package's model tests, by name."""
    root = pathlib.Path(onnx.__file__).parent.parent
    for case in sorted(load_model_tests(kind="real"), key=lambda case: case.name):
        path = root / case.url
        yield case, path, sorted(path.parent.glob(f"{path.stem}_output_*.pb"))


def write_light(output, tolerances):
    from onnx.backend.test.runner import Runner

    for case, path, expected in light_cases():
        model = onnx.load(path)
        inputs = [Runner.generate_dummy_data(value, seed=0, name=case.name) for value in cases.graph_inputs(model)]
        outputs = [onnx.load_tensor(name) for name in expected]
        cases.write_case(output / "light" / case.name, model, [(inputs, outputs)], model_bytes=path.read_bytes())
        add_tolerance(tolerances, case, model)


def write_light_random(output, tolerances):
    for seed, (case, path, _) in enumerate(light_cases()):
        name = case.name + "_random"
        tolerances.add(name, *light_random.write_case(output / "light-random" / name, onnx.load(path), seed))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=pathlib.Path, default=cases.ROOT / "build" / "onnx-suite")
    output = parser.parse_args().output
    stamp, text = output / "stamp", cases.stamp_text("suite.py", "light_random.py")
    if cases.is_current(stamp, text):
        return 0
    start = time.monotonic()
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir(parents=True)
    tolerances = cases.Tolerances()
    print(f"suite: writing the tests of onnx {onnx.__version__} to {output}", flush=True)
    write_node(output, tolerances)
    for kind in ("simple", "pytorch-converted", "pytorch-operator"):
        copy_shipped(kind, output, tolerances)
    write_light(output, tolerances)
    write_light_random(output, tolerances)
    tolerances.write(output / "tolerances.txt")
    stamp.write_text(text)
    print(f"suite: done in {time.monotonic() - start:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
