"""Formats the C code by clang-format, but leaves macro definitions, which clang-format 14 spoils, as they are.

Usage: tools/format.py [--check] [FILE...] (default: every C file of the repository). --check changes nothing, names the
files that are not formatted and exits with 1.
"""

import argparse
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
MACRO = re.compile(r"^[ \t]*#[ \t]*define\b(?:[^\n]*\\\n)*[^\n]*", re.MULTILINE)


def tracked():
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "*.c", "*.h"], cwd=ROOT, check=True,
                            capture_output=True, text=True)
    return [ROOT / name for name in listed.stdout.split() if (ROOT / name).is_file()]


def formatted(text, path):
    result = subprocess.run(["clang-format", f"--assume-filename={path}"], input=text, check=True, capture_output=True,
                            text=True, cwd=ROOT).stdout
    macros = MACRO.findall(text)
    if len(macros) != len(MACRO.findall(result)):
        return result
    originals = iter(macros)
    return MACRO.sub(lambda _: next(originals), result)


def process(path, check):
    """True if the file was formatted already."""
    text = path.read_text()
    result = formatted(text, path)
    if result != text and not check:
        path.write_text(result)
    return result == text


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("files", nargs="*", type=pathlib.Path)
    arguments = parser.parse_args()
    files = [path.resolve() for path in arguments.files] or tracked()
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        results = list(pool.map(lambda path: process(path, arguments.check), files))
    if not arguments.check:
        return 0
    for path, good in zip(files, results):
        if not good:
            print(f"{path.relative_to(ROOT)}: not formatted (make format)")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
