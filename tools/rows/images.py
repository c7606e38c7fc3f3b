"""Rows of ImageDecoder for the formats that need no library: files written here, pixels known before."""

import struct

import numpy as np

from row import Family


def as_bytes(data):
    return np.frombuffer(data, np.uint8)


def bmp(width, height, bits, body, palette=b"", compression=0, masks=b""):
    offset = 14 + 40 + len(masks) + len(palette)
    info = struct.pack("<IiiHHIIiiII", 40, width, height, 1, bits, compression, len(body), 0, 0, len(palette) // 4, 0)
    return as_bytes(b"BM" + struct.pack("<IHHI", offset + len(body), 0, 0, offset) + info + masks + palette + body)


def padded(rows):
    return b"".join(row + b"\0" * (-len(row) % 4) for row in rows)


def grey(pixels):
    p = pixels.astype(np.uint32)
    return ((p[..., :1] * 19595 + p[..., 1:2] * 38470 + p[..., 2:] * 7471 + 0x8000) >> 16).astype(np.uint8)


def families():
    f = Family("images", 91)

    def decodes(stream, pixels):
        f.row("ImageDecoder", [stream], pixels, opset=20)

    pixels = f.integers(0, 255, 3, 5, 3, dtype=np.uint8)
    bgr = np.ascontiguousarray(pixels[:, :, ::-1])
    upward = bmp(5, 3, 24, padded([row.tobytes() for row in bgr[::-1]]))
    decodes(upward, pixels)
    f.row("ImageDecoder", [upward], bgr, opset=20, pixel_format="BGR")
    f.row("ImageDecoder", [upward], grey(pixels), opset=20, pixel_format="Grayscale")
    decodes(bmp(5, -3, 24, padded([row.tobytes() for row in bgr])), pixels)
    wide = np.concatenate([bgr, np.full((3, 5, 1), 7, np.uint8)], axis=2)
    decodes(bmp(5, -3, 32, wide.tobytes()), pixels)
    masks = struct.pack("<III", 0xFF, 0xFF00, 0xFF0000)
    decodes(bmp(5, -3, 32, np.concatenate([pixels, wide[..., 3:]], axis=2).tobytes(), masks=masks, compression=3), pixels)
    five = f.integers(0, 31, 2, 3, 3, dtype=np.uint16)
    packed = (five[..., 0] << 10 | five[..., 1] << 5 | five[..., 2]).astype("<u2")
    decodes(bmp(3, -2, 16, padded([row.tobytes() for row in packed])), ((five * 255 + 15) // 31).astype(np.uint8))
    colours = f.integers(0, 255, 4, 3, dtype=np.uint8)
    palette = np.concatenate([colours[:, ::-1], np.zeros((4, 1), np.uint8)], axis=1).tobytes()
    at = np.array([[0, 1, 2, 3, 3], [3, 2, 1, 0, 1]])
    decodes(bmp(5, -2, 8, padded([bytes(row.tolist()) for row in at]), palette), colours[at])
    nibbles = [bytes([row[0] << 4 | row[1], row[2] << 4 | row[3], row[4] << 4]) for row in at]
    decodes(bmp(5, -2, 4, padded(nibbles), palette), colours[at])
    runs = bytes([3, 1, 2, 2, 0, 0, 0, 3, 0, 1, 2, 0, 2, 3, 0, 1])
    decodes(bmp(5, -2, 8, runs, palette, compression=1), colours[[[1, 1, 1, 2, 2], [0, 1, 2, 3, 3]]])
    runs = bytes([4, 0x12, 1, 0x30, 0, 0, 0, 5, 0x01, 0x23, 0x10, 0, 0, 1])
    decodes(bmp(5, -2, 4, runs, palette, compression=2), colours[[[1, 2, 1, 2, 3], [0, 1, 2, 3, 1]]])
    decodes(bmp(3, -1, 1, padded([bytes([0b10100000])]), palette[:8]), colours[[[1, 0, 1]]])
    decodes(as_bytes(b"P6 # rows\n5 3\n255\n" + pixels.tobytes()), pixels)
    decodes(as_bytes(b"P3 5 3 255 " + b" ".join(b"%d" % v for v in pixels.ravel())), pixels)
    level = pixels[..., :1].repeat(3, axis=2)
    decodes(as_bytes(b"P5 5 3 255\n" + pixels[..., 0].tobytes()), level)
    decodes(as_bytes(b"P5 5 3 65535\n" + (pixels[..., 0].astype(">u2") * 257).tobytes()), level)
    decodes(as_bytes(b"P2 5 3 255 " + b" ".join(b"%d" % v for v in pixels[..., 0].ravel())), level)
    bits = np.array([[1, 0, 1], [0, 0, 1]])
    ink = ((1 - bits) * 255).astype(np.uint8)[..., None].repeat(3, axis=2)
    decodes(as_bytes(b"P1 3 2\n101001"), ink)
    decodes(as_bytes(b"P4 3 2\n" + bytes([0b10100000, 0b00100000])), ink)
    nothing = np.zeros((0, 0, 3), np.uint8)
    for stream in (b"", b"BM", b"no image at all", b"P6 5 3 255\nshort", b"P6 -1 3 255\n", bytes(upward[:60])):
        decodes(as_bytes(stream), nothing)
    yield f
