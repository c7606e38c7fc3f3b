#!/bin/bash
# Random words as arguments: the command ends with 0, 1 or 2, and says why in one line.
set -euo pipefail
source "$SRC/tests/cmd/_check.sh"
python3 - "$RLX" "$SRC" <<'P'
import random, subprocess, sys, tempfile
rlx, src = sys.argv[1], sys.argv[2]
rng = random.Random(3)
empty = tempfile.TemporaryDirectory()
table = [line.split() for line in subprocess.run([rlx, "help", "completion"], capture_output=True, text=True).stdout.splitlines()]
commands = [row[0] for row in table] + ["", "-", "--", "zzz"]
options = sorted({option for row in table for option in row[1:]})
model = f"{src}/examples/custom_op/model.onnx"
words = ["", "-", "--", "=", "%s%n", "\x01", "é" * 50, "a" * 5000, "0", "-1", "1e999", "nan", "9" * 40, "x=", "=x", "x=1", "N=2", "x.0=1",
         "x.99=1", "*=eval", "*=cpu:", "node:=any", "onnx.Gemm=cpu:onednn", "cpu", "cpu:7", "auto", ":", "budget=1,", "/", ".", "/dev/null", model,
         f"{src}/examples/custom_op/test_data_set_0/input_0.pb", f"{src}/examples", "/proc/self/mem", "acme"]
skipped = {"--output", "--trace", "--repeat", "--jobs"}  # write files, or take long
for _ in range(300):
    args = [rng.choice(commands)]
    for _ in range(rng.randrange(5)):
        if rng.random() < 0.6:
            option = rng.choice(options)
            if option.rstrip("=") in skipped:
                continue
            args.append(option + rng.choice(words) if option.endswith("=") else option)
        else:
            args.append(rng.choice(words))
    args = [arg.replace("\0", "") for arg in args]
    done = subprocess.run([rlx, *args], capture_output=True, timeout=120, stdin=subprocess.DEVNULL, cwd=empty.name)
    lines = done.stderr.decode(errors="replace").splitlines()
    good = done.returncode in (0, 1, 2) and all(line.startswith("rlx: ") for line in lines)
    if not good:
        sys.exit(f"{args}\nexit code {done.returncode}\n" + "\n".join(lines))
P
