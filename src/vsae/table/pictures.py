"""Cells that are pictures: arrays, images of Pillow, or paths of files; to channels-first arrays and back.

An array is (H, W), (H, W, C) or (C, H, W), with bytes or with shares of white. A path is opened with Pillow, turned
grey or coloured and resized to the column's shape. Imputed pictures come back as arrays in the layout of the column; of
files, as (H, W) or (H, W, C) bytes.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from vsae.table.cells import objects
from vsae.table.errors import library

Shape = tuple[int, int, int]  # channels, height, width
Layout = Literal["HW", "HWC", "CHW"]

_MOST_CHANNELS = 4


class NoPicture(ValueError):
    """What a cell holds is no picture, or not one of the column's shape; the message says what is the matter."""


def is_path(value: Any) -> bool:
    return isinstance(value, str | os.PathLike)


def shape_and_layout(value: Any, wanted: Shape | None = None) -> tuple[Shape, Layout]:
    """Of a picture; `wanted` settles what its sides do not.

    >>> shape_and_layout(np.zeros((28, 20))), shape_and_layout(np.zeros((28, 20, 3)))
    (((1, 28, 20), 'HW'), ((3, 28, 20), 'HWC'))
    """
    x = _array(value) if wanted is None or not is_path(value) else np.zeros(wanted[1:])
    if is_path(value) and wanted is not None:
        return wanted, "HW" if wanted[0] == 1 else "HWC"
    if x.ndim == 2:
        return (1, *x.shape), "HW"
    if x.ndim == 3 and x.shape != wanted and x.shape[-1] <= _MOST_CHANNELS:
        return (x.shape[-1], *x.shape[:2]), "HWC"
    if x.ndim == 3 and (x.shape == wanted or x.shape[0] <= _MOST_CHANNELS):
        return x.shape, "CHW"
    raise NoPicture(f"an array of shape {x.shape}, which is no picture")


def is_bytes(value: Any) -> bool:
    return is_path(value) or _array(value).dtype.kind in "iu"


def read(values: NDArray[Any], shape: Shape) -> NDArray[np.float32]:
    """(n,) cells → (n, C, H, W) in [0, 1]."""
    out = np.zeros((len(values), *shape), dtype=np.float32)
    for i, value in enumerate(values):
        x = _array(value, shape)
        found, layout = shape_and_layout(x, shape)
        if found != shape:
            raise NoPicture(f"a picture of {_said(found)} among those of {_said(shape)}")
        x = x[None] if layout == "HW" else np.moveaxis(x, -1, 0) if layout == "HWC" else x
        pixels = x.astype(np.float32) / (255 if x.dtype.kind in "iu" else 1)
        if not ((pixels >= 0) & (pixels <= 1)).all():
            raise NoPicture("a picture with a pixel outside 0 … 1; divide by its largest value, or give bytes")
        out[i] = pixels
    return out


def write(x: NDArray[Any], layout: Layout, as_bytes: bool) -> NDArray[np.object_]:
    """(n, C, H, W) in [0, 1] → (n,) cells."""
    x = np.rint(255 * np.clip(x, 0, 1)).astype(np.uint8) if as_bytes else x.astype(np.float32)
    laid = {"HW": x[:, 0] if x.shape[1] else x, "HWC": np.moveaxis(x, 1, -1), "CHW": x}[layout]
    return objects(list(laid))


def _array(value: Any, shape: Shape | None = None) -> NDArray[Any]:
    if is_path(value):
        return _opened(value, shape)
    x = np.asarray(value)
    if x.dtype.kind not in "biuf":
        raise NoPicture(f"{type(value).__name__} values, which are no pictures")
    return x


def _opened(path: str | os.PathLike[str], shape: Shape | None) -> NDArray[np.uint8]:
    pillow = library("PIL.Image")
    if not Path(path).is_file():
        raise NoPicture(f"the path {os.fspath(path)!r}, where there is no file")
    try:
        with pillow.open(path) as file:
            if shape is None:
                return np.asarray(file.convert("L" if file.mode in ("1", "L", "I", "F") else "RGB"))
            channels, height, width = shape
            return np.asarray(file.convert("L" if channels == 1 else "RGB").resize((width, height)))
    except OSError as error:
        raise NoPicture(f"the path {os.fspath(path)!r}, which Pillow can not open ({error})") from None


def _said(shape: Shape) -> str:
    return "×".join(map(str, shape))
