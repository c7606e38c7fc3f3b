"""Writes the cases of DFT, STFT and fft.* (tests/packages/fft): values of NumPy and SciPy, computed in double.

Usage: a Python with numpy, scipy and onnx: fft.py.
"""

import numpy as np
import scipy.fft
import scipy.signal
from cases import Case, tolerances


def parts(z):
    return np.stack([z.real, z.imag], axis=-1)


def join(x):
    return x[..., 0].astype(np.float64) + 1j * x[..., 1].astype(np.float64)


def suite_cases():
    """The inverse transforms of the ONNX suite, with exact values instead of float32's rounding of zeros."""
    case = Case("fft", "onnx_dft_inverse")
    x = parts(np.arange(100.0).reshape(1, 10, 10) + 0j).astype(np.float32)
    y = parts(np.fft.ifft(join(x), axis=1)).astype(np.float32)
    case.node("DFT", [x, None, np.array(1)], [y], inverse=1)
    case.write()


def onnx_dft(rng, dtype):
    case = Case("fft", f"onnx_dft_{np.dtype(dtype).name}")
    for n in (1, 2, 12, 100, 101) if dtype == np.float64 else (64, 13):
        z = rng.standard_normal((2, n, 3, 2)).astype(dtype)
        r = rng.standard_normal((2, n, 3, 1)).astype(dtype)
        axis = np.array(1)
        case.node("DFT", [z, None, axis], [parts(scipy.fft.fft(join(z), axis=1)).astype(dtype)])
        case.node("DFT", [z, None, axis], [parts(scipy.fft.ifft(join(z), axis=1)).astype(dtype)], inverse=1)
        half = parts(scipy.fft.rfft(r[..., 0].astype(np.float64), axis=1)).astype(dtype)
        case.node("DFT", [r, None, axis], [half], onesided=1)
    case.write()


def onnx_stft(rng, dtype):
    case = Case("fft", f"onnx_stft_{np.dtype(dtype).name}")
    for length, frame, step in ((200, 16, 8), (400, 50, 7), (130, 101, 5)):
        x = rng.standard_normal((2, length, 1)).astype(dtype)
        window = scipy.signal.get_window("hann", frame).astype(dtype)
        count = 1 + (length - frame) // step
        frames = np.stack([x[:, i * step:i * step + frame, 0] for i in range(count)], axis=1).astype(np.float64)
        want = parts(scipy.fft.rfft(frames * window.astype(np.float64), axis=-1)).astype(dtype)
        case.node("STFT", [x, np.array(step), window], [want])
        want = parts(scipy.fft.fft(frames, axis=-1)).astype(dtype)
        case.node("STFT", [x, np.array(step), None, np.array(frame)], [want], onesided=0)
    case.write()


def package_ops(rng, dtype):
    case = Case("fft", f"fft_{np.dtype(dtype).name}")
    shapes = (((3, 10), -1, 0), ((2, 7, 3), 1, 0), ((3, 9), -1, 12), ((9, 2), 0, 5))
    for norm in ("backward", "ortho", "forward") if dtype == np.float64 else ("ortho",):
        for shape, axis, n in shapes:
            attributes = {"axis": axis, "norm": norm} | ({"n": n} if n else {})
            r = rng.standard_normal(shape).astype(dtype)
            z = rng.standard_normal((*shape, 2)).astype(dtype)
            size = n or None
            case.node("fft.rfft", [r], [parts(scipy.fft.rfft(r.astype(np.float64), size, axis, norm)).astype(dtype)],
                      **attributes)
            case.node("fft.irfft", [z], [scipy.fft.irfft(join(z), size, axis, norm).astype(dtype)], **attributes)
            case.node("fft.fft", [z], [parts(scipy.fft.fft(join(z), size, axis, norm)).astype(dtype)], **attributes)
            case.node("fft.ifft", [z], [parts(scipy.fft.ifft(join(z), size, axis, norm)).astype(dtype)], **attributes)
    case.write()


def spectral_layer(rng):
    """A model of the domain: a Fourier layer (filter in the spectrum of a signal), then a convolution's worth of it."""
    case = Case("fft", "spectral_layer")
    x = rng.standard_normal((2, 4, 96)).astype(np.float32)
    w = rng.standard_normal((4, 49, 1)).astype(np.float32)
    spectrum = case.node("fft.rfft", [x], ["spectrum"])[0]
    scaled = case.node("Mul", [spectrum, w], ["scaled"])[0]
    back = case.node("fft.irfft", [scaled], ["back"])[0]
    y = scipy.fft.irfft(scipy.fft.rfft(x.astype(np.float64)) * w[..., 0])
    case.node("Relu", [back], [np.maximum(y, 0).astype(np.float32)])
    case.write()


def main():
    rng = np.random.default_rng(2)
    suite_cases()
    for dtype in (np.float32, np.float64):
        onnx_dft(rng, dtype)
        onnx_stft(rng, dtype)
        package_ops(rng, dtype)
    spectral_layer(rng)
    tolerances("fft", 1e-6, 1e-6, **{f"{name}_float64": (1e-12, 1e-12) for name in ("onnx_dft", "onnx_stft", "fft")})


if __name__ == "__main__":
    main()
