"""Writes tests/rows/*.txt: rows of inputs and expected values for every op family, from oracles outside rlx.

Usage: build/venv/bin/python tools/rows/write.py [--check] [FAMILY...]. The files are committed: writing them again gives
the same bytes. Exit status 1, with a list, if oracles differ where no row says which one is right.
"""

import argparse
import importlib
import sys

from row import ROOT

MODULES = ["elementwise", "cast", "reduce", "shape", "gather", "linear", "window", "normal", "recurrent", "resize", "misc",
           "images", "shapes"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("families", nargs="*")
    parser.add_argument("--modules", default=",".join(MODULES), help="the modules to look in")
    options = parser.parse_args()
    folder = ROOT / "tests" / "rows"
    bad = []
    for module in options.modules.split(","):
        for family in importlib.import_module(module).families():
            if options.families and family.name not in options.families:
                continue
            family.write(folder)
            bad += family.bad
            print(f"{family.name}: {family.count} rows, {(folder / (family.name + '.txt')).stat().st_size} bytes", flush=True)
    for text in bad:
        print(text)
    print(f"{len(bad)} rows without an answer")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
