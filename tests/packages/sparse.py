"""Writes the test cases of the sparse package, tests/packages/sparse: ONNX models of the domain with SciPy's results.

Usage: a Python with onnx and scipy: sparse.py.
"""

import pathlib
import sys

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg as spl
from onnx import TensorProto, helper

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))  # its cases.py, not the one beside this file
from cases import write_case  # noqa: E402

FOLDER = ROOT / "tests/packages/sparse"
KINDS = {"f64_i64": (np.float64, np.int64), "f32_i32": (np.float32, np.int32)}
OTHER_KINDS = {"f64_i32": (np.float64, np.int32), "f32_i64": (np.float32, np.int64)}
ONNX_TYPE = {np.float64: TensorProto.DOUBLE, np.float32: TensorProto.FLOAT, np.int64: TensorProto.INT64,
             np.int32: TensorProto.INT32, np.bool_: TensorProto.BOOL}


def shuffled(a, rng, value, index, duplicates=True):
    """CSR arrays of a with unsorted rows and, if asked, entries split in two that must be summed."""
    rows, cols, values = sp.find(a)
    if duplicates:
        split = rng.random(len(rows)) < 0.3
        part = rng.random(split.sum()).round(1)
        rows, cols = np.concatenate([rows, rows[split]]), np.concatenate([cols, cols[split]])
        values = np.concatenate([np.where(split, 0, values), part])
        values[: len(split)][split] = np.asarray(a[rows[: len(split)][split], cols[: len(split)][split]]).ravel() - part
    order = rng.permutation(len(rows))
    order = order[np.argsort(rows[order], kind="stable")]
    pointers = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=a.shape[0]))])
    return values[order].astype(value), cols[order].astype(index), pointers.astype(index)


def as_csr(triplet, shape):
    values, col, pointers = triplet
    return sp.csr_matrix((values.astype(np.float64), col, pointers), shape=shape, copy=True)


def sparse_random(rng, rows, cols, density):
    a = rng.standard_normal((rows, cols)) * (rng.random((rows, cols)) < density)
    a[rng.integers(rows)] = 0  # an empty row
    return a.round(3)


class Case:
    """A model under construction: inputs with their arrays, nodes, outputs with what is expected."""

    def __init__(self, value, index):
        self.value, self.index = value, index
        self.inputs, self.nodes, self.outputs = {}, [], {}

    def matrix(self, prefix, triplet):
        names = [f"{prefix}{port}" for port in ("values", "col_idx", "row_ptr")]
        self.inputs.update(zip(names, triplet))
        return names

    def dense(self, name, array):
        self.inputs[name] = np.asarray(array, dtype=self.value)
        return name

    def columns(self, name, count):
        self.inputs[name] = np.array([count], dtype=np.int64)
        return name

    def node(self, op, inputs, expected, **attributes):
        """expected: name to array; a value None is an output that is not compared."""
        self.nodes.append(helper.make_node(op, inputs, list(expected), domain="sparse", **attributes))
        self.outputs.update({name: array for name, array in expected.items() if array is not None})

    def write(self, name):
        def info(label, array):
            return helper.make_tensor_value_info(label, ONNX_TYPE[array.dtype.type], array.shape)

        graph = helper.make_graph(self.nodes, name, [info(*item) for item in self.inputs.items()],
                                  [info(*item) for item in self.outputs.items()])
        model = helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 21),
                                                                       helper.make_opsetid("sparse", 1)])
        write_case(FOLDER / name, model, [(list(self.inputs.values()), list(self.outputs.values()))])


def products(value, index):
    rng = np.random.default_rng(1)
    case = Case(value, index)
    triplet = shuffled(sp.csr_matrix(sparse_random(rng, 9, 7, 0.4)), rng, value, index)
    a = as_csr(triplet, (9, 7))
    names = case.matrix("", triplet)
    x, y = rng.standard_normal(7).astype(value), rng.standard_normal(9).astype(value)
    block = rng.standard_normal((7, 3)).astype(value)
    tall = rng.standard_normal((9, 3)).astype(value)
    for label, array in (("x", x), ("y", y), ("block", block), ("tall", tall)):
        case.dense(label, array)
    columns = case.columns("columns", 7)
    case.node("mat_vec", names + ["x"], {"ax": (a @ x.astype(np.float64)).astype(value)})
    case.node("mat_vec", names + ["y", columns], {"aty": (a.T @ y.astype(np.float64)).astype(value)}, transpose=1)
    case.node("mat_mat", names + ["block"], {"ab": (a @ block.astype(np.float64)).astype(value)})
    case.node("mat_mat", names + ["tall", columns], {"att": (a.T @ tall.astype(np.float64)).astype(value)}, transpose=1)
    row_of = np.repeat(np.arange(9), np.diff(triplet[2]))
    case.node("values_grad", names[1:] + ["y", "x"], {"outer": (y[row_of] * x[triplet[1]]).astype(value)})
    case.node("values_grad", names[1:] + ["tall", "block"],
              {"outers": (tall[row_of] * block[triplet[1]]).sum(1).astype(value)})
    # Transposed by sorting (column, row); equal places keep their order.
    order = np.lexsort((row_of, triplet[1]))
    pointers = np.concatenate([[0], np.cumsum(np.bincount(triplet[1], minlength=7))]).astype(index)
    case.node("transpose", names + [columns], {"tv": triplet[0][order], "tc": row_of[order].astype(index), "tp": pointers})
    case.node("transpose_values", names + [columns], {"only": triplet[0][order]})
    case.node("transpose_values", ["only", names[1], names[2], columns], {"again": triplet[0]}, inverse=1)
    return case


def spgemm(value, index):
    rng = np.random.default_rng(2)
    case = Case(value, index)
    first = shuffled(sp.csr_matrix(sparse_random(rng, 6, 8, 0.3)), rng, value, index)
    second = shuffled(sp.csr_matrix(sparse_random(rng, 8, 5, 0.3)), rng, value, index)
    c = as_csr(first, (6, 8)) @ as_csr(second, (8, 5))
    c.sort_indices()
    names = case.matrix("a_", first) + case.matrix("b_", second) + [case.columns("columns", 5)]
    case.node("spgemm", names, {"values": c.data.astype(value), "col_idx": c.indices.astype(index),
                                "row_ptr": c.indptr.astype(index)})
    return case


def general(value, index):
    rng = np.random.default_rng(3)
    case = Case(value, index)
    n = 24
    triplet = shuffled(sp.csr_matrix(sparse_random(rng, n, n, 0.15) + 4 * np.eye(n)), rng, value, index)
    a = as_csr(triplet, (n, n))
    names = case.matrix("", triplet)
    b, block = rng.standard_normal(n).astype(value), rng.standard_normal((n, 3)).astype(value)
    case.dense("b", b)
    case.dense("block", block)
    x, xt = spl.spsolve(a.tocsc(), b.astype(np.float64)), spl.spsolve(a.T.tocsc(), b.astype(np.float64))
    xs = spl.spsolve(a.tocsc(), block.astype(np.float64))
    tight = {"rtol": 1e-13 if value == np.float64 else 1e-6}
    case.node("lu_solve", names + ["b"], {"lu": x.astype(value)})
    case.node("lu_solve", names + ["b"], {"lut": xt.astype(value)}, transpose=1)
    case.node("lu_solve", names + ["block"], {"lus": xs.astype(value)})
    case.node("gmres_solve", names + ["b"], {"gmres": x.astype(value)}, restart=24, **tight)
    case.node("gmres_solve", names + ["b", "lu"], {"warm": x.astype(value)}, restart=5, transpose=0, preconditioner="ilu0",
              **tight)
    case.node("gmres_solve", names + ["b"], {"gmrest": xt.astype(value)}, transpose=1, preconditioner="jacobi", **tight)
    case.node("bicgstab_solve", names + ["block"], {"stab": xs.astype(value)}, preconditioner="ilu0", **tight)
    case.node("bicgstab_solve", names + ["b"], {"stabt": xt.astype(value)}, transpose=1, **tight)
    return case


def definite(value, index):
    rng = np.random.default_rng(4)
    case = Case(value, index)
    n = 25
    grid = sp.diags([-1.0, 2.0, -1.0], [-1, 0, 1], shape=(5, 5))
    matrix = (sp.kron(grid, sp.eye(5)) + sp.kron(sp.eye(5), grid) + sp.eye(n)).tocsr()
    triplet = shuffled(matrix, rng, value, index, duplicates=False)
    lower = shuffled(sp.tril(matrix).tocsr(), rng, value, index, duplicates=False)
    a = as_csr(triplet, (n, n))
    names, names_lower = case.matrix("", triplet), case.matrix("lower_", lower)
    b, block = rng.standard_normal(n).astype(value), rng.standard_normal((n, 2)).astype(value)
    case.dense("b", b)
    case.dense("block", block)
    x = spl.spsolve(a.tocsc(), b.astype(np.float64)).astype(value)
    xs = spl.spsolve(a.tocsc(), block.astype(np.float64)).astype(value)
    tight = {"rtol": 1e-13 if value == np.float64 else 1e-6}
    case.node("cholesky_solve", names + ["b"], {"cholesky": x})
    case.node("cholesky_solve", names_lower + ["block"], {"triangle": xs}, uplo="lower")
    case.node("cg_solve", names + ["b"], {"cg": x}, **tight)
    case.node("cg_solve", names + ["block"], {"cgs": xs, "iterations": None, "residual": None,
                                              "converged": np.array([True, True])}, **tight)
    for kind in ("none", "jacobi", "ilu0", "ic0"):
        case.node("pcg_solve", names + ["b"], {kind: x}, preconditioner=kind, **tight)
    case.node("cg_solve", names + ["b"], {"x3": None, "it3": np.array(3, dtype=np.int64), "res3": None,
                                          "ok3": np.array(False)}, max_iter=3, **tight)
    return case


def least_squares(value, index):
    rng = np.random.default_rng(5)
    case = Case(value, index)
    triplet = shuffled(sp.csr_matrix(sparse_random(rng, 14, 6, 0.5)), rng, value, index)
    a = as_csr(triplet, (14, 6)).toarray()
    names, columns = case.matrix("", triplet), case.columns("columns", 6)
    b, short = rng.standard_normal(14).astype(value), rng.standard_normal(6).astype(value)
    case.dense("b", b)
    case.dense("short", short)
    case.dense("guess", rng.standard_normal(6))
    damped = np.linalg.solve(a.T @ a + 0.25 * np.eye(6), a.T @ b)
    tight = {"rtol": 1e-13 if value == np.float64 else 1e-6}
    case.node("lsqr_solve", names + ["b", "", columns], {"x": np.linalg.lstsq(a, b, rcond=None)[0].astype(value)}, **tight)
    case.node("lsqr_solve", names + ["b", "", columns], {"damped": damped.astype(value)}, damp=0.5, **tight)
    case.node("lsqr_solve", names + ["b", "guess", columns], {"guessed": damped.astype(value)}, damp=0.5, **tight)
    case.node("lsqr_solve", names + ["short", "", columns],
              {"wide": np.linalg.lstsq(a.T, short, rcond=None)[0].astype(value)}, transpose=1, **tight)
    case.node("normal_solve", names + ["short"],
              {"normal": np.linalg.solve(a.T @ a + 0.25 * np.eye(6), short).astype(value)}, damp=0.5, **tight)
    return case


def main():
    tolerances = []
    for kind, types in {**KINDS, **OTHER_KINDS}.items():
        for make in (products, spgemm, general, definite, least_squares):
            if kind in KINDS or make in (products, spgemm):
                make(*types).write(f"{make.__name__}_{kind}")
                bounds = "1e-9 1e-11" if kind.startswith("f64") else "2e-4 2e-5"
                tolerances.append(f"{make.__name__}_{kind} {bounds}\n")
    (FOLDER / "tolerances.txt").write_text("".join(tolerances))


if __name__ == "__main__":
    main()
