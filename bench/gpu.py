"""Compares rlx on a GPU with the device's own bandwidth, with cuBLAS and with PyTorch: same work, same GPU, one process.

Usage: bench/gpu.py [--device vulkan] [--library build/librlx.so] [--small] [--models NAME,...] [--networks-only]
[--json FILE]. Inputs and
outputs live in device memory; both sides' time is from the call to the end of the work on the device, interleaved, and
what counts is the ratio of the minima. Outputs are compared in full. Without PyTorch and a GPU that it can use, rlx's own
times are printed alone. --small makes everything small enough for a software device, to try the script.
"""

import argparse
import itertools
import json
import pathlib
import sys
import tempfile
import time

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import rlx_ctypes

ROOT = pathlib.Path(__file__).resolve().parent.parent
ROUNDS = 12


def torch_on_gpu():
    try:
        import torch
    except ImportError:
        return None
    return torch if torch.cuda.is_available() else None


class Rlx:
    """A model on a device, its inputs and outputs in device memory; single kernels are forbidden to leave it."""

    def __init__(self, library, model, device, feeds, forbid):
        self.session = rlx_ctypes.Session(library, model, 0, device, forbid)
        self.session.bind_on_device(feeds)
        self.session.run()
        self.session.keep_outputs_on_device()

    def run(self):
        self.session.run()

    def outputs(self):
        return self.session.outputs()


def save(folder, name, nodes, inputs, outputs, constants=(), opset=17):
    graph = helper.make_graph(nodes, name, inputs, outputs, initializer=list(constants))
    path = pathlib.Path(folder) / f"{name}.onnx"
    onnx.save_model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8), path)
    return path


def value(name, kind, dims):
    return helper.make_tensor_value_info(name, kind, dims)


class Case:
    """A model file, its inputs, the same work in PyTorch (a function of tensors on the GPU), and the bytes it must move or
    the operations it must do."""

    def __init__(self, name, path, feeds, work, bytes_moved=0, flops=0, tolerance=1e-5, bar=None):
        self.name, self.path, self.feeds, self.work = name, path, feeds, work
        self.bytes_moved, self.flops, self.tolerance, self.bar = bytes_moved, flops, tolerance, bar


def kernels(folder, small, torch):
    rng = np.random.default_rng(5)
    rows, columns = (64, 256) if small else (65536, 4096)
    x = rng.standard_normal((rows, columns), np.float32)
    port = [value("x", TensorProto.FLOAT, [rows, columns])], [value("y", TensorProto.FLOAT, [rows, columns])]
    scale = numpy_helper.from_array(np.float32(1.5), "a"), numpy_helper.from_array(np.float32(-0.25), "b")
    path = save(folder, "elementwise", [helper.make_node("Mul", ["x", "a"], ["t"]), helper.make_node("Add", ["t", "b"], ["u"]),
                                        helper.make_node("Relu", ["u"], ["y"])], *port, constants=scale)
    yield Case("elementwise", path, {"x": x}, lambda t: torch.relu(t["x"] * 1.5 - 0.25), 2 * x.nbytes, bar="copy")
    path = save(folder, "softmax", [helper.make_node("Softmax", ["x"], ["y"], axis=-1)], *port)
    yield Case("softmax", path, {"x": x}, lambda t: torch.softmax(t["x"], -1), 2 * x.nbytes, bar="copy")
    n = 128 if small else 4096
    for kind, dtype, tolerance in ((TensorProto.FLOAT, np.float32, 1e-5), (TensorProto.FLOAT16, np.float16, 5e-3)):
        a, b = (rng.standard_normal((n, n), np.float32).astype(dtype) for _ in range(2))
        name = f"matmul-{np.dtype(dtype).name}"
        path = save(folder, name, [helper.make_node("MatMul", ["a", "b"], ["y"])],
                    [value("a", kind, [n, n]), value("b", kind, [n, n])], [value("y", kind, [n, n])])
        yield Case(name, path, {"a": a, "b": b}, lambda t: t["a"] @ t["b"], flops=2 * n**3, tolerance=tolerance, bar="torch")


def networks(folder, torch, wanted):
    """ResNet-50 and BERT-base with seeded weights, as PyTorch's exporter writes them, against PyTorch eager."""
    if not torch:
        return
    sys.path.insert(0, str(ROOT / "tools"))
    import models
    import torchvision
    import transformers

    rng = np.random.default_rng(5)
    for batch in (1, 32):
        name = f"resnet50-{batch}"
        if name not in wanted:
            continue
        path = pathlib.Path(folder) / f"{name}.onnx"
        path.write_bytes(models.export_vision(torchvision.models.resnet50, batch=True))
        net = models.randomise(torchvision.models.resnet50(weights=None), np.random.default_rng(17)).cuda()
        yield Case(name, path, {"image": rng.standard_normal((batch, 3, 224, 224), np.float32)},
                   lambda t, net=net: net(t["image"]), tolerance=1e-3)

    class Bert(torch.nn.Module):
        def __init__(self):
            super().__init__()
            config = transformers.BertConfig(attn_implementation="eager")
            self.net = models.randomise(transformers.BertModel(config), np.random.default_rng(17))

        def forward(self, input_ids, attention_mask, token_type_ids):
            return self.net(input_ids=input_ids, attention_mask=attention_mask, token_type_ids=token_type_ids)[0]

    for batch in (1, 32):
        name = f"bert-base-{batch}"
        if name not in wanted:
            continue
        path = pathlib.Path(folder) / f"{name}.onnx"
        names = ["input_ids", "attention_mask", "token_type_ids"]
        sample = torch.arange(128).reshape(1, 128)
        net = Bert().eval()
        path.write_bytes(models.export(net, (sample, torch.ones_like(sample), torch.zeros_like(sample)), names, ["states"],
                                       {name: {0: "batch"} for name in (*names, "states")}))
        net = net.cuda()
        ids = rng.integers(0, 30522, (batch, 128))
        yield Case(name, path, {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)},
                   lambda t, net=net: net(**t), tolerance=1e-3)


def least(run, rounds):
    times = []
    for _ in range(rounds):
        begin = time.perf_counter()
        run()
        times.append(time.perf_counter() - begin)
    return min(times)


def copy_time(torch, size):
    source, target = (torch.randint(0, 255, (size,), dtype=torch.uint8, device="cuda") for _ in range(2))

    def run():
        target.copy_(source)
        torch.cuda.synchronize()

    run()
    return least(run, ROUNDS)


def largest_difference(ours, theirs):
    ours, theirs = ours.astype(np.float64), theirs.astype(np.float64)
    return float(np.abs(ours - theirs).max() / max(np.abs(theirs).max(), 1e-30))


def measure(case, library, device, torch):
    rlx = Rlx(library, case.path, device, case.feeds, forbid=case.bar is not None)
    row = {"case": case.name}
    rlx.run()
    ours = least(rlx.run, 3)
    if torch:
        tensors = {name: torch.from_numpy(array).cuda() for name, array in case.feeds.items()}

        def run():
            with torch.no_grad():
                result = case.work(tensors)
            torch.cuda.synchronize()
            return result

        theirs = run()
        row["difference"] = largest_difference(next(iter(rlx.outputs().values())), theirs.cpu().numpy())
        other = least(run, 3)
        for _ in range(ROUNDS):
            ours, other = min(ours, least(rlx.run, 3)), min(other, least(run, 3))
        row.update(torch_ms=other * 1e3, against_torch=other / ours)
        if case.bytes_moved:
            row["against_copy"] = copy_time(torch, case.bytes_moved // 2) / ours
        if row["difference"] > case.tolerance:
            row["failed"] = f"differs by {row['difference']:.1e}"
    row["rlx_ms"] = ours * 1e3
    if case.bytes_moved:
        row["gb_per_s"] = case.bytes_moved / ours / 1e9
    if case.flops:
        row["tflop_per_s"] = case.flops / ours / 1e12
    return row


def show(row):
    text = f"{row['case']:16}"
    for key, unit in (("rlx_ms", "ms"), ("torch_ms", "ms PyTorch"), ("against_torch", "of PyTorch's speed"),
                      ("against_copy", "of copy bandwidth"), ("gb_per_s", "GB/s"), ("tflop_per_s", "TFLOP/s"),
                      ("difference", "difference"), ("failed", "")):
        if key in row:
            number = row[key] if isinstance(row[key], str) else f"{row[key]:.3g}"
            text += f"  {number} {unit}"
    print(text, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="vulkan")
    parser.add_argument("--library", default=ROOT / "build" / "librlx.so")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--models", default="resnet50-1,resnet50-32,bert-base-1,bert-base-32", help="networks; '' for none")
    parser.add_argument("--networks-only", action="store_true")
    parser.add_argument("--json", type=pathlib.Path)
    arguments = parser.parse_args()
    torch = torch_on_gpu()
    if torch:
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
        print(f"PyTorch {torch.__version__} on {torch.cuda.get_device_name(0)}, TF32 off")
    library = rlx_ctypes.Library(arguments.library)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        chosen = networks(folder, torch, arguments.models.split(","))
        for case in itertools.chain(() if arguments.networks_only else kernels(folder, arguments.small, torch), chosen):
            try:
                rows.append(measure(case, library, arguments.device, torch))
            except RuntimeError as error:
                rows.append({"case": case.name, "failed": str(error)})
            show(rows[-1])
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=2) + "\n")
    return 1 if any("failed" in row for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
