"""Writes the cases of linalg (tests/packages/linalg): values of NumPy and SciPy, computed in double.

Vectors that are unique but for their sign have the sign that the ops give them. Usage: a Python with numpy, scipy and
onnx: linalg.py.
"""

import numpy as np
import scipy.linalg
from cases import Case, tolerances


def positive(u, *partners):
    """Each column of u with its largest element positive; rows of partners go with it."""
    at = np.argmax(np.abs(u), axis=-2)
    sign = np.sign(np.take_along_axis(u, at[..., None, :], axis=-2))
    return (u * sign, *(p * np.swapaxes(sign, -1, -2) for p in partners))


def definite(rng, *shape):
    a = rng.standard_normal(shape)
    return a @ np.swapaxes(a, -1, -2) + shape[-1] * np.eye(shape[-1])


class Group:
    """A case of one dtype: inputs are rounded first, so that the values are those of what the op is given."""

    def __init__(self, name, dtype):
        self.case, self.dtype = Case("linalg", f"{name}_{np.dtype(dtype).name}", weights=True), dtype

    def __call__(self, op, function, *inputs, **attributes):
        rounded = [np.asarray(x).astype(self.dtype) for x in inputs]
        values = function(*(x.astype(np.float64) for x in rounded))
        values = values if isinstance(values, tuple) else (values,)
        values = [np.asarray(v) if np.asarray(v).dtype == np.int64 else np.asarray(v).astype(self.dtype) for v in values]
        self.case.node(f"linalg.{op}", rounded, values, **attributes)


def factorisations(rng, dtype):
    group = Group("factor", dtype)
    for shape in ((5, 5), (2, 3, 4, 4), (1, 1), (0, 0), (2, 0, 0), (40, 40)):
        a = definite(rng, *shape)
        lower = np.linalg.cholesky if shape[-1] else lambda x: x
        group("cholesky", lower, np.tril(a) + 7 * np.triu(np.ones(shape), 1))
        group("cholesky", lambda x: np.swapaxes(lower(np.swapaxes(x, -1, -2)), -1, -2), np.triu(a), upper=1)
    for shape in ((5, 3), (3, 5), (2, 4, 4), (33, 20), (0, 3), (3, 0)):
        a = rng.standard_normal(shape)
        if min(shape[-2:]):
            group("qr", lambda x: tuple(np.linalg.qr(x)), a)
            group("qr", lambda x: tuple(np.linalg.qr(x, "complete")), a, complete=1)
        group("svd", lambda x: svd(x), a)
    for shape in ((5, 5), (2, 3, 4, 4), (1, 1), (24, 24)):
        a = rng.standard_normal(shape)
        symmetric = lambda x, part: part(x) + np.swapaxes(part(x, 1 if part is np.triu else -1), -1, -2)
        group("eigh", lambda x: eigh(symmetric(x, np.tril)), a)
        group("eigh", lambda x: eigh(symmetric(x, np.triu)), a, upper=1)
    group.case.write()


def svd(a):
    u, s, vh = np.linalg.svd(a, full_matrices=False)
    if s.size:
        u, vh = positive(u, vh)
    return u, s, vh


def eigh(a):
    w, v = np.linalg.eigh(a)
    return w, positive(v)[0]


def solving(rng, dtype):
    group = Group("solve", dtype)
    for shape, columns in (((5, 5), 3), ((2, 3, 4, 4), 1), ((30, 30), 7), ((1, 1), 0), ((0, 0), 2)):
        a = rng.standard_normal(shape) + 2 * np.eye(shape[-1])
        b = rng.standard_normal((*shape[:-1], columns))
        turned = np.swapaxes(a, -1, -2).astype(dtype).astype(np.float64)
        group("lu_solve", np.linalg.solve, a, b)
        group("lu_solve", lambda x, y: np.linalg.solve(turned, y), a, b, trans=1)
        group("lu_solve", lambda x, y: np.linalg.solve(x, y[..., None])[..., 0], a, rng.standard_normal(shape[:-1]))
        a = a + 3 * np.eye(shape[-1]) if shape[-1] < 10 else a / 10 + np.eye(shape[-1])
        for upper in (0, 1):
            part = np.triu if upper else np.tril
            group("solve_triangular", lambda x, y: np.linalg.solve(part(x), y), a, b, upper=upper)
            group("solve_triangular", lambda x, y: np.linalg.solve(np.swapaxes(part(x), -1, -2), y), a, b, upper=upper,
                  trans=1)
            unit = lambda x: part(x, 1 if upper else -1) + np.eye(shape[-1])
            group("solve_triangular", lambda x, y: np.linalg.solve(unit(x), y), a / 4, b, upper=upper, unit_diagonal=1)
    group.case.write()


def determinants(rng, dtype):
    group = Group("det", dtype)
    singular = np.array([[1.0, 2.0], [2.0, 4.0]])
    for a in (rng.standard_normal((4, 4)), rng.standard_normal((3, 2, 3, 3)), np.zeros((0, 0)), singular,
              np.eye(30) * 5):
        group("det", lambda x: np.linalg.det(x), a / 2 if a.shape[-1] == 30 else a)
        group("slogdet", lambda x: tuple(np.linalg.slogdet(x)), a)
        with np.errstate(invalid="ignore", divide="ignore"):
            group("logdet", lambda x: np.where((s := np.linalg.slogdet(x))[0] < 0, np.nan, s[1]), a)
    for shape in ((4, 4), (2, 3, 5, 5), (0, 0)):
        group("inv", np.linalg.inv, rng.standard_normal(shape) + 2 * np.eye(shape[-1]))
    group.case.write()


def least_squares(a, b):
    values = [np.linalg.lstsq(x, y, rcond=None) for x, y in zip(a.reshape(-1, *a.shape[-2:]), b.reshape(-1, *b.shape[-2:]))]
    batch = a.shape[:-2]
    return (np.stack([v[0] for v in values]).reshape(*batch, a.shape[-1], b.shape[-1]),
            np.array([v[2] for v in values], np.int64).reshape(batch),
            np.stack([v[3] for v in values]).reshape(*batch, -1))


def inverses(rng, dtype):
    group = Group("pinv", dtype)
    deficient = rng.integers(-3, 4, (6, 2)).astype(float) @ rng.integers(-3, 4, (2, 5)).astype(float)
    for a in (rng.standard_normal((5, 3)), rng.standard_normal((2, 3, 4)), np.zeros((2, 3)), np.zeros((0, 3))):
        group("pinv", np.linalg.pinv, a)
    group("pinv", lambda x: np.linalg.pinv(x, rcond=1e-4), deficient, rtol=1e-4)
    for a in (rng.standard_normal((5, 3)), rng.standard_normal((2, 3, 4))):
        group("lstsq", least_squares, a, rng.standard_normal((*a.shape[:-1], 2)))
    group.case.write()


def exponentials(rng, dtype):
    group = Group("expm", dtype)
    for a in (rng.standard_normal((4, 4)), rng.standard_normal((2, 3, 3)) * 6, np.zeros((3, 3)), np.zeros((0, 0)),
              rng.standard_normal((20, 20)) / 3):
        group("expm", lambda x: np.stack([scipy.linalg.expm(m) for m in x]) if x.ndim == 3 and len(x) else
              scipy.linalg.expm(x) if x.size else x, a)
    group.case.write()


def gaussian_process(rng):
    """A model of the domain: the posterior mean of a Gaussian process and the log likelihood of its data."""
    case = Case("linalg", "gaussian_process")
    x, y = rng.uniform(-2, 2, (12, 1)).astype(np.float32), rng.standard_normal((12, 1)).astype(np.float32)
    z = rng.uniform(-2, 2, (5, 1)).astype(np.float32)
    kernel = lambda a, b: np.exp(-((a - b.T) ** 2))
    gram = (kernel(x, x) + 0.1 * np.eye(12)).astype(np.float32)
    across = kernel(z, x).astype(np.float32)
    factor = case.node("linalg.cholesky", [gram], ["factor"])[0]
    half = case.node("linalg.solve_triangular", [factor, y], ["half"])[0]
    alpha = case.node("linalg.solve_triangular", [factor, half], ["alpha"], trans=1)[0]
    exact = np.linalg.solve(gram.astype(np.float64), y.astype(np.float64))
    case.node("MatMul", [across, alpha], [(across.astype(np.float64) @ exact).astype(np.float32)])
    case.node("linalg.logdet", [gram], [np.float32(np.linalg.slogdet(gram.astype(np.float64))[1]).reshape(())])
    case.write()


def main():
    rng = np.random.default_rng(4)
    for dtype in (np.float32, np.float64):
        for write in (factorisations, solving, determinants, inverses, exponentials):
            write(rng, dtype)
    gaussian_process(rng)
    names = ("factor", "solve", "det", "pinv", "expm")
    tolerances("linalg", 1e-3, 1e-4, **{f"{name}_float64": (1e-10, 1e-11) for name in names})


if __name__ == "__main__":
    main()
