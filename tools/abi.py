"""The binary interface of librlx: exported symbols and sizes of public structs.

Usage: tools/abi.py symbols LIBRARY      exported symbols must be exactly those declared RLX_API in include/rlx
       tools/abi.py check LIBRARY        what tests/abi.txt records must still hold: it only grows
       tools/abi.py update LIBRARY       records the present interface in tests/abi.txt
A struct may grow only if it starts with struct_size.
"""

import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
RECORD = ROOT / "tests" / "abi.txt"
HEADERS = sorted((ROOT / "include" / "rlx").glob("*.h"))


def declarations():
    """The text of all public headers, without comments and macro definitions."""
    text = "\n".join(path.read_text() for path in HEADERS)
    text = re.sub(r"^[ \t]*#[ \t]*define\b(?:[^\n]*\\\n)*[^\n]*", "", text, flags=re.MULTILINE)
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.DOTALL)
    return re.sub(r"//[^\n]*", "", text)


def declared_symbols():
    found = re.findall(r"\bRLX_API\b([^;{]*?)\b(\w+)\s*(?=[(\[;])", declarations())
    return {name for _, name in found}


def exported_symbols(library):
    listed = subprocess.run(["nm", "-D", "--defined-only", library], check=True, capture_output=True, text=True).stdout
    return {line.split()[-1].split("@")[0] for line in listed.splitlines() if line.split()[-2] not in ("A", "a")}


def struct_sizes():
    """{name: (size, whether it starts with struct_size)} of the structs that the headers define with a body."""
    structs = dict(re.findall(r"\bstruct\s+(rlx_\w+)\s*\{\s*([^;}]*)", declarations()))
    lines = [f'#include "rlx/{path.name}"' for path in HEADERS] + ["#include <stdio.h>", "int main(void) {"]
    lines += [f'  printf("{name} %zu\\n", sizeof(struct {name}));' for name in structs]
    with tempfile.TemporaryDirectory() as folder:
        source, program = pathlib.Path(folder, "sizes.c"), pathlib.Path(folder, "sizes")
        source.write_text("\n".join(lines + ["  return 0;", "}", ""]))
        compiler = shlex.split(os.environ.get("CC", "cc"))
        subprocess.run([*compiler, f"-I{ROOT / 'include'}", source, "-o", program], check=True)
        sizes = dict(line.split() for line in subprocess.run([program], check=True, capture_output=True,
                                                              text=True).stdout.splitlines())
    return {name: (int(sizes[name]), "struct_size" in first or "rlx_kernel" in first.split())
            for name, first in structs.items()}


def symbols(library):
    declared, exported = declared_symbols(), exported_symbols(library)
    faults = [f"declared in include/rlx but not exported: {name}" for name in sorted(declared - exported)]
    faults += [f"exported but not declared in include/rlx: {name}" for name in sorted(exported - declared)]
    faults += [f"exported without the prefix rlx_: {name}" for name in sorted(exported) if not name.startswith("rlx_")]
    return faults


def check(library):
    exported, sizes, faults = exported_symbols(library), struct_sizes(), []
    for kind, name, *size in (line.split() for line in RECORD.read_text().splitlines()):
        if kind == "symbol" and name not in exported:
            faults.append(f"{name} is no longer exported")
        elif kind == "struct" and name not in sizes:
            faults.append(f"struct {name} is no longer defined")
        elif kind == "struct":
            now, grows = sizes[name]
            if now < int(size[0]) or (now != int(size[0]) and not grows):
                faults.append(f"struct {name} was {size[0]} bytes and is {now}")
    return faults


def update(library):
    lines = [f"symbol {name}\n" for name in sorted(exported_symbols(library))]
    lines += [f"struct {name} {size}\n" for name, (size, _) in sorted(struct_sizes().items())]
    RECORD.write_text("".join(lines))
    return []


def main():
    commands = {"symbols": symbols, "check": check, "update": update}
    if len(sys.argv) != 3 or sys.argv[1] not in commands:
        print(__doc__, file=sys.stderr)
        return 2
    faults = commands[sys.argv[1]](sys.argv[2])
    for fault in faults:
        print(fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
