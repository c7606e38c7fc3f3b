"""Checks the rules of the source tree that need no compiler: include order, lengths, first lines, environment reads.

Usage: tools/source_rules.py. Prints one line a finding, then the share of long functions; exits with 1 on a finding.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
# A folder of src/ may include itself, those before it, and the public headers.
ORDER = ("base", "ir", "ops", "images", "grad", "onnx", "pass", "plan", "backend", "runtime", "check", "cli")
BACKENDS = ("cpu", "gpu", "vulkan", "cuda", "metal", "record")  # folders whose headers stay in them
TABLE_OF_BACKENDS = "src/backend/backend.c"  # … except the one header that names each backend
LONG_FUNCTION, LONG_SHARE, LONG_FILE = 60, 0.02, 1000
ENVIRONMENT = "src/base/options.c"  # the only file that reads environment variables

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def sources(*folders):
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".c", ".h", ".def"):
                yield path.relative_to(ROOT)


def include_fault(path, name):
    """Why `path` may not include "name" of this repository, or None."""
    parts, target = path.parts, name.split("/")
    if target[0] == "rlx":
        return None
    if parts[0] in ("packages", "examples"):
        folder = ROOT.joinpath(*parts[:2])
        inside = (folder / name).exists() or (ROOT / path.parent / name).resolve().is_relative_to(folder)
        return None if inside else "packages and examples may include rlx/ only"
    if len(target) < 2 or target[0] not in ORDER:
        return None if (ROOT / path.parent / name).exists() else "not a file of src/"
    if ORDER.index(target[0]) > ORDER.index(parts[1]):
        return f"{parts[1]} comes before {target[0]}"
    if target[0] == "backend" and target[1] in BACKENDS and len(target) > 2:
        shared = target[1] == "gpu" and parts[1] == "backend"
        table = path.as_posix() == TABLE_OF_BACKENDS and target[2] == f"{target[1]}.h"
        if not shared and not table and parts[1:3] != ("backend", target[1]):
            return f"headers of backend/{target[1]} stay in it"
    return None


def include_findings(path, lines):
    for number, line in enumerate(lines, 1):
        found = INCLUDE.match(line)
        if not found:
            continue
        quote, name = found.groups()
        if quote == "<":
            fault = "private headers are included with quotes" if (ROOT / "src" / name).exists() else None
        elif path.parts[0] == "include":
            fault = None if name.startswith("rlx/") or (ROOT / path.parent / name).exists() else "not a public header"
        else:
            fault = include_fault(path, name)
        if fault:
            yield f"{path}:{number}: includes {name}: {fault}"


def functions(lines):
    """(line, length) of each function of formatted code: its head is not indented and its last line is a brace."""
    start = None
    for number, line in enumerate(lines, 1):
        if start is None:
            if re.match(r"^[A-Za-z_].*\{$", line) and not re.match(r"^(typedef|struct|union|enum)\b[^(]*\{$", line) \
                    and " = " not in line:
                start = number
            elif re.match(r"^\S.*\)\s*\{.*\}$", line) and not line.startswith(("#", "/")) and " = " not in line:
                yield number, 1
        elif line.startswith("}"):
            if line == "}":
                yield start, number - start + 1
            start = None


def file_findings(path, lines):
    if not lines or not re.match(r"^(//|/\*)", lines[0]):
        yield f"{path}:1: the first line must be a comment that says what the file is for"
    if len(lines) > LONG_FILE:
        yield f"{path}: {len(lines)} lines, more than {LONG_FILE}"
    if path.as_posix() != ENVIRONMENT:
        for number, line in enumerate(lines, 1):
            if re.search(r"\b(secure_)?getenv\s*\(", line):
                yield f"{path}:{number}: environment variables are read in {ENVIRONMENT} only"


def main():
    findings, lengths = [], []
    for path in sources("include", "src", "packages", "examples", "tests"):
        lines = (ROOT / path).read_text().splitlines()
        if path.parts[0] == "tests":
            findings += [f for f in file_findings(path, lines) if "environment" not in f]
            continue
        findings += file_findings(path, lines)
        findings += include_findings(path, lines)
        lengths += [(length, path, line) for line, length in functions(lines)]
    longest = sorted((item for item in lengths if item[0] > LONG_FUNCTION), reverse=True)
    share = len(longest) / max(len(lengths), 1)
    for finding in findings:
        print(finding)
    for length, path, line in longest:
        print(f"note: {path}:{line}: a function of {length} lines")
    print(f"functions: {len(lengths)}, over {LONG_FUNCTION} lines: {len(longest)} ({100 * share:.1f} %)")
    if share >= LONG_SHARE:
        findings.append("")
        print(f"too many functions over {LONG_FUNCTION} lines: the limit is {100 * LONG_SHARE:.0f} %")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
