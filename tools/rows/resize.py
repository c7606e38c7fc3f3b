"""Rows of Resize and Upsample: modes, coordinate transforms, rounding, scales and sizes, cropping, antialiasing."""

import numpy as np

from row import Family

I = np.array
LOOSE = (1e-4, 1e-5)
TRANSFORMS = ["half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric"]
NEAREST = ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"]


def families():
    f = Family("resize", 91)
    x = np.arange(1, 21, dtype=np.float32).reshape(1, 1, 4, 5)
    scales = [(1, 1, 2, 2), (1, 1, 0.6, 0.6), (1, 1, 1.5, 0.8)]
    sizes = [(1, 1, 7, 8), (1, 1, 2, 3), (1, 1, 1, 1)]
    for transform in TRANSFORMS:
        for kind, values in [("scales", s) for s in scales] + [("sizes", s) for s in sizes]:
            inputs = [x, None, I(values, np.float32)] if kind == "scales" else [x, None, None, I(values)]
            attrs = {"coordinate_transformation_mode": transform}
            for nearest in NEAREST:
                f.row("Resize", inputs, opset=19, oracle="ref", mode="nearest", nearest_mode=nearest, **attrs)
            f.row("Resize", inputs, opset=19, oracle="ref", mode="linear", tolerance=LOOSE, **attrs)
            f.row("Resize", inputs, opset=19, oracle="ref", mode="cubic", tolerance=LOOSE, **attrs)
            f.row("Resize", inputs, opset=19, oracle="ref", mode="cubic", tolerance=LOOSE, exclude_outside=1, cubic_coeff_a=-0.5, **attrs)
    small = I([1, 1, 0.6, 0.7], np.float32)
    for mode in ("linear", "cubic"):
        f.row("Resize", [x, None, small], opset=19, oracle="ref", mode=mode, antialias=1, tolerance=LOOSE)
        f.row("Resize", [x, None, None, I([1, 1, 2, 2])], opset=19, oracle="ref", mode=mode, antialias=1, tolerance=LOOSE)
    for roi in ([0, 0, 0.4, 0.6, 1, 1, 0.6, 1.7], [0, 0, -0.5, 0, 1, 1, 0.5, 1]):
        for mode in ("nearest", "linear", "cubic"):
            f.row("Resize", [x, I(roi, np.float32), None, I([1, 1, 3, 3])], opset=19, oracle="ref", mode=mode, extrapolation_value=-9.0,
                  coordinate_transformation_mode="tf_crop_and_resize", tolerance=LOOSE)
    for policy in ("not_larger", "not_smaller"):
        f.row("Resize", [x, None, None, I([7, 8])], opset=19, oracle="ref", axes=[2, 3], keep_aspect_ratio_policy=policy)
        f.row("Resize", [x, None, None, I([8, 7])], opset=19, oracle="ref", axes=[3, 2], keep_aspect_ratio_policy=policy, mode="linear",
              tolerance=LOOSE)
    f.row("Resize", [x, None, I([2, 0.5], np.float32)], np.repeat(x, 2, 3)[:, :, [0, 2]], opset=19, axes=[-1, -2])
    for shape, scale in (((5,), [2]), ((2, 3), [1, 2.5]), ((1, 1, 2, 2, 2), [1, 1, 2, 2, 1.5])):
        y = f.normal(*shape)
        for mode in ("nearest", "linear", "cubic"):
            f.row("Resize", [y, None, I(scale, np.float32)], opset=19, oracle="ref", mode=mode, tolerance=LOOSE)
    for dtype in (np.float64, np.float16, np.int32, np.uint8, np.int8, np.int64):
        y = (np.arange(6).reshape(1, 1, 2, 3) * 10).astype(dtype)
        f.row("Resize", [y, None, I([1, 1, 2, 2], np.float32)], np.repeat(np.repeat(y, 2, 2), 2, 3), opset=19)
    f.row("Resize", [np.zeros((0, 1, 2, 2), np.float32), None, I([1, 1, 2, 2], np.float32)], np.zeros((0, 1, 4, 4), np.float32), opset=19)
    f.row("Resize", [x, None, I([1, 1, 0, 1], np.float32)], fails="onnx.Resize", opset=19)
    f.row("Resize", [x, None, I([1, 1, -1, 1], np.float32)], fails="onnx.Resize", opset=19)
    f.row("Resize", [x, None, I([1, 1, np.nan, 1], np.float32)], fails="onnx.Resize", opset=19)
    f.row("Resize", [x, None, I([1, 1, 1e30, 1], np.float32)], fails="onnx.Resize", opset=19)
    f.row("Resize", [x, None, None, I([1, 1, 10**7, 10**7])], fails="emory", opset=19)
    f.row("Resize", [x, None, I([2, 2], np.float32)], fails="onnx.Resize", opset=19)
    f.row("Resize", [x, I([1, 1, 2, 2], np.float32)], np.repeat(np.repeat(x, 2, 2), 2, 3), opset=10)
    f.row("Upsample", [x, I([1, 1, 2, 3], np.float32)], np.repeat(np.repeat(x, 2, 2), 3, 3), opset=9)
    f.row("Upsample", [x], np.repeat(np.repeat(x, 2, 2), 3, 3), opset=7, scales=[1.0, 1.0, 2.0, 3.0])
    yield f
