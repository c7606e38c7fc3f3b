"""One runtime with one model in a process of its own, driven by bench.py over standard input and output.

Usage: bench/worker.py RUNTIME MODEL THREADS INPUTS.npz OUTPUTS.npz [PACKAGE]. RUNTIME is rlx or onnxruntime. Prints one
JSON line when loaded and, for every line `N` that it reads, the nanoseconds of N runs as a JSON list.
"""

import json
import pathlib
import sys
import time

import numpy as np


def status_kib(field):
    for line in pathlib.Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1])
    return 0


def open_rlx(model, threads, feeds, package):
    import rlx_ctypes

    library = rlx_ctypes.Library(pathlib.Path(__file__).parent.parent / "build" / "librlx.so")
    if package:
        library.load_package(package)
    # The clock starts here: loading the library itself is no part of loading a model.
    def load():
        session = rlx_ctypes.Session(library, model, threads)
        session.bind(feeds)
        return session.run, session.outputs
    return load


def open_onnxruntime(model, threads, feeds, package):
    import onnxruntime

    def load():
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        binding = session.io_binding()
        for name, array in feeds.items():
            binding.bind_cpu_input(name, array)
        names = [output.name for output in session.get_outputs()]
        for name in names:
            binding.bind_output(name)
        run = session.run_with_iobinding
        return (lambda: run(binding)), (lambda: dict(zip(names, binding.copy_outputs_to_cpu())))
    return load


def main():
    runtime, model, threads, inputs, outputs, *package = sys.argv[1:]
    with np.load(inputs) as archive:
        feeds = {name: np.ascontiguousarray(archive[name]).reshape(archive[name].shape) for name in archive.files}
    opener = {"rlx": open_rlx, "onnxruntime": open_onnxruntime}[runtime]
    load = opener(model, int(threads), feeds, package[0] if package else None)
    pathlib.Path("/proc/self/clear_refs").write_text("5")  # peak memory counts from here
    before = status_kib("VmRSS")
    start = time.perf_counter_ns()
    run, fetch = load()
    loaded = time.perf_counter_ns() - start
    run()
    first = time.perf_counter_ns() - start
    np.savez(outputs, **fetch())
    peak = status_kib("VmHWM") - before
    print(json.dumps({"load_ns": loaded, "first_ns": first, "peak_kib": peak}), flush=True)
    clock = time.perf_counter_ns
    for line in sys.stdin:
        times = []
        for _ in range(int(line)):
            begin = clock()
            run()
            times.append(clock() - begin)
        print(json.dumps(times), flush=True)


if __name__ == "__main__":
    main()
