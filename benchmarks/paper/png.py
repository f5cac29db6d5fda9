"""Grids of grey images as PNG files, by the standard library alone."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

_GAP, _BETWEEN = 2, 10  # pixels between images, and between the parts of a grid
_WHITE = 255


def as_bytes(images: NDArray[Any]) -> NDArray[np.uint8]:
    """Bytes as they are, numbers in [0, 1] as bytes.

    >>> as_bytes(np.array([0.0, 0.2, 1.1]))
    array([  0,  51, 255], dtype=uint8)
    """
    return images if images.dtype == np.uint8 else np.rint(255 * np.clip(images, 0, 1)).astype(np.uint8)


def grid(parts: Sequence[NDArray[np.uint8]], scale: int = 2) -> NDArray[np.uint8]:
    """Parts side by side, each (rows, columns, H, W), dark on white; (height, width)."""
    sides = []
    for part in parts:
        rows, columns, height, width = part.shape
        side = np.full((rows, height + _GAP, columns, width + _GAP), _WHITE, dtype=np.uint8)
        side[:, :height, :, :width] = _WHITE - part.transpose(0, 2, 1, 3)
        sides.append(side.reshape(rows * (height + _GAP), columns * (width + _GAP)))
        sides.append(np.full((len(sides[0]), _BETWEEN), _WHITE, dtype=np.uint8))
    return np.concatenate(sides[:-1], axis=1).repeat(scale, axis=0).repeat(scale, axis=1)


def png(pixels: NDArray[np.uint8]) -> bytes:
    """A grey image (H, W) as a PNG file.

    >>> png(np.zeros((2, 3), dtype=np.uint8))[:4]
    b'\\x89PNG'
    """

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    height, width = pixels.shape
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)  # eight bits, grey
    lines = np.concatenate([np.zeros((height, 1), dtype=np.uint8), pixels], axis=1)  # each begins with its filter, none
    return b"".join(
        [
            b"\x89PNG\r\n\x1a\n",
            chunk(b"IHDR", header),
            chunk(b"IDAT", zlib.compress(lines.tobytes(), 9)),
            chunk(b"IEND", b""),
        ]
    )
