"""Compares rlx with ONNX Runtime: same file, same inputs, same number of threads, interleaved.

Usage: bench/bench.py [--models NAME,...] [--threads 1,2] [--rounds N] [--json FILE]. Each runtime has the model in a
process of its own; in every round each runs for a while, the other being idle, and the order changes each round. What
counts is the ratio of the minima over all rounds, because the machine may have slow phases. Outputs are compared in
full. Load time is from the file to a session that is ready to run and, in another column, to the end of the first run,
the least of several fresh processes;
memory is the growth of the peak resident size from before loading to after the first run.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnx
from onnx import helper, numpy_helper

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODELS = ROOT / "build" / "models"
ROUND_SECONDS = 0.15  # what one runtime runs in a round, at least one run
PAUSE_SECONDS = 0.03  # lets the other runtime's threads stop spinning
CHAIN = 1000
LOADS = 4  # further processes that only load and run once or twice


def image(rng):
    return {"image": rng.standard_normal((1, 3, 224, 224), np.float32)}


def words(rng):
    return {"input_ids": rng.integers(0, 30522, (1, 128)), "attention_mask": np.ones((1, 128), np.int64),
            "token_type_ids": np.zeros((1, 128), np.int64)}


def case_inputs(folder):
    """The inputs of a test case's data set."""
    model = onnx.load(folder.parent / "model.onnx", load_external_data=False)
    constants = {tensor.name for tensor in model.graph.initializer}
    names = [value.name for value in model.graph.input if value.name not in constants]
    return {name: numpy_helper.to_array(onnx.load_tensor(folder / f"input_{i}.pb")) for i, name in enumerate(names)}


def chain_model(path, domain, op, **attributes):
    """A chain of tiny nodes that no optimiser fuses, so that milliseconds of the chain are microseconds a node."""
    nodes = [helper.make_node(op, [f"v{i}"], [f"v{i + 1}"], name=f"n{i}", domain=domain, **attributes)
             for i in range(CHAIN)]
    ports = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [8]) for name in ("v0", f"v{CHAIN}")]
    graph = helper.make_graph(nodes, "chain", ports[:1], ports[1:])
    opsets = [helper.make_opsetid("", 17)] + ([helper.make_opsetid(domain, 1)] if domain else [])
    onnx.save_model(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)


class Subject:
    """What is measured: a model file for each runtime, its inputs, and the package of ops that rlx loads for it."""

    def __init__(self, name, files, feeds, package=None):
        self.name, self.files, self.feeds, self.package = name, files, feeds, package


def subjects(folder):
    rng = np.random.default_rng(5)
    for name, feeds in (("resnet50", image(rng)), ("mobilenetv2", image(rng)), ("bert-base", words(rng))):
        yield Subject(name, {runtime: MODELS / f"{name}.onnx" for runtime in ("rlx", "onnxruntime")}, feeds)
    silero = MODELS / "silero-vad"
    yield Subject("silero-vad", {runtime: silero / "model.onnx" for runtime in ("rlx", "onnxruntime")},
                  case_inputs(silero / "test_data_set_1"))
    package = ROOT / "build" / "packages" / "librlx-tiny.so"
    files = {"rlx": folder / "chain-rlx.onnx", "onnxruntime": folder / "chain-onnx.onnx"}
    chain_model(files["rlx"], "tiny", "Step")
    chain_model(files["onnxruntime"], "", "HardSigmoid", alpha=0.5, beta=0.25)  # the same function between 0 and 1
    yield Subject("chain-1000", files, {"v0": np.linspace(0, 1, 8, dtype=np.float32)}, package)


class Worker:
    def __init__(self, runtime, subject, threads, folder):
        self.outputs = folder / f"{runtime}.npz"
        inputs = folder / "inputs.npz"
        np.savez(inputs, **subject.feeds)
        command = [sys.executable, ROOT / "bench" / "worker.py", runtime, subject.files[runtime], str(threads), inputs,
                   self.outputs]
        if runtime == "rlx" and subject.package:
            command.append(subject.package)
        environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env=environment)
        self.facts = self.read()
        self.times = []
        self.batch = max(1, int(ROUND_SECONDS / (min(self.run(3)) * 1e-9)))

    def read(self):
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"the worker ended with exit code {self.process.wait()}")
        return json.loads(line)

    def run(self, count):
        self.process.stdin.write(f"{count}\n")
        self.process.stdin.flush()
        return self.read()

    def round(self):
        self.times += self.run(self.batch)
        time.sleep(PAUSE_SECONDS)

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def difference(ours, theirs):
    """The largest difference of all outputs, relative to the largest value of each."""
    with np.load(ours) as a, np.load(theirs) as b:
        if set(a.files) != set(b.files):
            raise RuntimeError(f"outputs {a.files} and {b.files} differ")
        worst = 0.0
        for name in a.files:
            if a[name].shape != b[name].shape or not np.all(np.isfinite(a[name])):
                raise RuntimeError(f"output {name}: {a[name].shape} and {b[name].shape}, or not finite")
            scale = max(float(np.abs(b[name]).max()), 1e-30)
            worst = max(worst, float(np.abs(a[name].astype(np.float64) - b[name]).max()) / scale)
        return worst


def load_again(subject, threads, folder, facts):
    """Loading once says little on a machine with slow phases: each runtime in turn, in fresh processes; the least counts."""
    for i in range(LOADS):
        for runtime in ("rlx", "onnxruntime") if i % 2 else ("onnxruntime", "rlx"):
            worker = Worker(runtime, subject, threads, folder)
            worker.close()
            for key in ("load_ns", "first_ns"):
                facts[runtime][key] = min(facts[runtime][key], worker.facts[key])


def measure(subject, threads, rounds):
    with tempfile.TemporaryDirectory() as folder:
        workers = {}
        try:
            for runtime in ("rlx", "onnxruntime"):
                workers[runtime] = Worker(runtime, subject, threads, pathlib.Path(folder))
            ordered = list(workers.values())
            for i in range(rounds):
                for worker in ordered if i % 2 == 0 else reversed(ordered):
                    worker.round()
            error = difference(ordered[0].outputs, ordered[1].outputs)
        finally:
            for worker in workers.values():
                worker.close()
        load_again(subject, threads, pathlib.Path(folder), {name: worker.facts for name, worker in workers.items()})
    row = {"model": subject.name, "threads": threads, "difference": error}
    for runtime, worker in workers.items():
        row[runtime] = {"min_ms": min(worker.times) / 1e6, "median_ms": float(np.median(worker.times)) / 1e6,
                        "load_ms": worker.facts["load_ns"] / 1e6, "first_ms": worker.facts["first_ns"] / 1e6,
                        "peak_mib": worker.facts["peak_kib"] / 1024}
    for key in ("min_ms", "load_ms", "first_ms", "peak_mib"):
        row[key.split("_")[0] + "_ratio"] = row["rlx"][key] / max(row["onnxruntime"][key], 1e-9)
    return row


HEADER = ("| model | threads | rlx ms | ORT ms | time ratio | load ms | load ratio | first run ratio | peak MiB | memory ratio | "
          "difference |\n|---|---|---|---|---|---|---|---|---|---|---|")


def line(row):
    ours, theirs = row["rlx"], row["onnxruntime"]
    return (f"| {row['model']} | {row['threads']} | {ours['min_ms']:.3f} | {theirs['min_ms']:.3f} | {row['min_ratio']:.2f} | "
            f"{ours['load_ms']:.0f} / {theirs['load_ms']:.0f} | {row['load_ratio']:.2f} | {row['first_ratio']:.2f} | "
            f"{ours['peak_mib']:.0f} / {theirs['peak_mib']:.0f} | {row['peak_ratio']:.2f} | "
            f"{row['difference']:.1e} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", help="comma-separated names; default: all")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--json", type=pathlib.Path, help="also write the rows to this file")
    arguments = parser.parse_args()
    wanted = arguments.models.split(",") if arguments.models else None
    rows, failed = [], []
    print(HEADER, flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for subject in subjects(pathlib.Path(folder)):
            if wanted and subject.name not in wanted:
                continue
            for threads in (int(text) for text in arguments.threads.split(",")):
                try:
                    rows.append(measure(subject, threads, arguments.rounds))
                    print(line(rows[-1]), flush=True)
                except RuntimeError as error:
                    failed.append(f"{subject.name}, {threads} threads: {error}")
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=2) + "\n")
    for failure in failed:
        print(f"bench: {failure}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
