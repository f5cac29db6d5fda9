"""Cells that are images: arrays, images of Pillow, or paths of files; to channels-first arrays and back.

An array is (H, W), (H, W, C) or (C, H, W), with bytes, with 16 bits (uint16) or with shares of white. A path is opened
with Pillow, turned grey or coloured and resized to the column's shape; 16 bits of grey are read as shares of white.
Imputed images come back as arrays in the layout of the column, of bytes or of 16 bits where these came; of files, as
(H, W) or (H, W, C) bytes.

A file may come from anyone: its content, not its name, says what it is, and only formats of pixels are read; how many
pixels it has is asked before they are decoded.
"""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from vsae.table.cells import objects
from vsae.table.errors import library

Shape = tuple[int, int, int]  # channels, height, width
Layout = Literal["HW", "HWC", "CHW"]

_MOST_CHANNELS = 4  # red, green, blue, alpha
_PLAIN_MODES = ("1", "L", "RGB", "RGBA", "F")  # of Pillow's images, that are arrays as they are
_WHITE = 65535  # of 16 bits
_LONG = 200  # characters of a path that an error shows
_FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "TIFF", "GIF")  # Pillow reads others by running programs, such as Ghostscript
_MOST_DECODED = 2**26  # pixels of a file: 67 megapixels, as a large camera has
_MOST_INFERRED = 2**20  # entries of an image whose size nobody stated
_FIRST = 25  # images whose median size a column gets


class NotAnImage(ValueError):
    """The value of a cell is not an image, or has another shape than the column; the message says which."""


def is_path(value: Any) -> bool:
    return isinstance(value, str | os.PathLike)


def shape_and_layout(value: Any, wanted: Shape | None = None) -> tuple[Shape, Layout]:
    """Of an image; `wanted` settles what its sides do not.

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
    raise NotAnImage(f"an array of shape {x.shape}, which is not an image")


def white_of(value: Any) -> int:
    """The number that stands for white: 1 in shares of it; 16 bits are told by the dtype, not by the values.

    >>> white_of(np.zeros((2, 2))), white_of(np.zeros((2, 2), int)), white_of(np.zeros((2, 2), np.uint16))
    (1, 255, 65535)
    """
    dtype = np.dtype(np.uint8) if is_path(value) else _array(value).dtype
    return _WHITE if dtype == np.uint16 else 255 if dtype.kind in "iu" else 1


def read(values: NDArray[Any], shape: Shape) -> NDArray[np.float32]:
    """(n,) cells → (n, C, H, W) in [0, 1]."""
    out = np.zeros((len(values), *shape), dtype=np.float32)
    for i, value in enumerate(values):
        x = _array(value, shape)
        found, layout = shape_and_layout(x, shape)
        if found != shape:
            raise NotAnImage(f"an image of {_said(found)} among those of {_said(shape)}")
        x = x[None] if layout == "HW" else np.moveaxis(x, -1, 0) if layout == "HWC" else x
        pixels = x.astype(np.float32) / np.float32(white_of(x))
        if not ((pixels >= 0) & (pixels <= 1)).all():
            raise NotAnImage("an image with a pixel outside 0 … 1; divide by its largest value, or give bytes")
        out[i] = pixels
    return out


def write(x: NDArray[Any], layout: Layout, white: int) -> NDArray[np.object_]:
    """(n, C, H, W) in [0, 1] → (n,) cells, whose pixels reach up to `white`."""
    if white == 1:
        x = x.astype(np.float32)
    else:
        x = np.rint(white * np.clip(x, 0, 1)).astype(np.uint16 if white == _WHITE else np.uint8)
    laid = {"HW": x[:, 0] if x.shape[1] else x, "HWC": np.moveaxis(x, 1, -1), "CHW": x}[layout]
    return objects(list(laid))


def _array(value: Any, shape: Shape | None = None) -> NDArray[Any]:
    if is_path(value):
        return _opened(value, shape or median_shape([value]))
    if _is_deep(value):
        return _shares(value)
    if getattr(value, "mode", "L") not in _PLAIN_MODES:  # a palette's pixels are numbers of colours
        try:
            value = value.convert("RGB")
        except ValueError as error:
            raise NotAnImage(f"an image of mode {value.mode} ({error})") from None
    x = np.asarray(value)
    if x.dtype.kind not in "biuf":
        raise NotAnImage(f"{type(value).__name__} values, which are not images")
    return x


def median_shape(paths: Sequence[Any]) -> Shape:
    """Of the first files, by what their headers say: one that is huge does not decide for all."""
    sizes, grey = [], True
    for path in paths[:_FIRST]:
        with _file(path) as image:
            sizes.append(image.size)
            grey &= image.mode in ("1", "L") or _is_deep(image)
    width, height = np.median(sizes, axis=0).astype(int).tolist()
    shape = (1 if grey else 3, height, width)
    if math.prod(shape) > _MOST_INFERRED:
        raise NotAnImage(f"images of {_said(shape)} pixels, too many to model (say Image(shape=(3, 64, 64)))")
    return shape


def _opened(path: str | os.PathLike[str], shape: Shape) -> NDArray[Any]:
    """Bytes, or shares of white where the file has more than 8 bits; of the column's size."""
    with _file(path) as file:
        if _is_deep(file):
            return _deep(library("PIL.Image"), file, shape)
        channels, height, width = shape
        return np.asarray(file.convert("L" if channels == 1 else "RGB").resize((width, height)))


@contextmanager
def _file(path: str | os.PathLike[str]) -> Iterator[Any]:
    """An image of Pillow, whose pixels are not decoded yet."""
    pillow, said = library("PIL.Image"), f"the path {_short(os.fspath(path))}"
    pillow.init()
    try:
        if not Path(path).is_file():  # an OSError where the name is too long for one
            raise NotAnImage(f"{said}, where there is no file")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of large images: ours is an error
            with pillow.open(path, formats=[name for name in _FORMATS if name in pillow.OPEN]) as file:
                if math.prod(file.size) > _MOST_DECODED:
                    raise NotAnImage(f"{said}, of {_said(file.size)} pixels (make it smaller)")
                if file.mode == "F":
                    raise NotAnImage(f"{said}, whose pixels are floats of no known range (save it with 8 or 16 bits)")
                yield file
    except (NotAnImage, MemoryError):
        raise
    except Exception as error:  # Pillow's are of all kinds where a file is broken
        reason = getattr(error, "strerror", None) or str(error)[:_LONG] or type(error).__name__
        raise NotAnImage(f"{said}, which Pillow cannot open ({reason})") from None


def _is_deep(value: Any) -> bool:
    """Whether an image of Pillow is grey with 16 bits; some formats have them in 32."""
    mode = getattr(value, "mode", None)
    return isinstance(mode, str) and (mode == "I" or mode.startswith("I;16"))


def _shares(image: Any) -> NDArray[np.float32]:
    """A deep image as shares of white; Pillow's own conversion to bytes would cut it off at 255."""
    pixels = np.asarray(image)
    if pixels.min() < 0 or pixels.max() > _WHITE:
        raise NotAnImage(f"an image with a pixel outside 0 … {_WHITE} (save it with 8 or 16 bits)")
    return pixels.astype(np.float32) / np.float32(_WHITE)


def _deep(pillow: Any, image: Any, shape: Shape) -> NDArray[np.float32]:
    x = _shares(image)
    channels, height, width = shape
    if x.shape != (height, width):
        x = np.clip(np.asarray(pillow.fromarray(x).resize((width, height))), 0, 1)  # cubic: it overshoots
    return x if channels == 1 else np.repeat(x[..., None], 3, -1)


def _short(text: str) -> str:
    return repr(text if len(text) <= _LONG else f"{text[:_LONG]}…")


def _said(shape: Sequence[int]) -> str:
    return "×".join(map(str, shape))
