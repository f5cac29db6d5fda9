"""Part `pictures`: bombs, formats that are none of pixels, damaged files; all of them called .png."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.attack.forge import damaged
from benchmarks.attack.outcomes import Outcomes, one_line
from vsae.table import Image, Table, TableError

_FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "TIFF", "GIF")
_OTHERS = {
    "EPS": b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 100 100\n%%EndComments\nshowpage\n",
    "PDF": b"%PDF-1.4\n",
    "PPM": b"P6 8 8 255\n" + bytes(192),
    "WMF": b"\xd7\xcd\xc6\x9a" + bytes(40),
    "ICO": b"\0\0\1\0\1\0" + bytes(40),
    "PSD": b"8BPS\0\1" + bytes(40),
    "nothing": b"",
}


def attack(count: int, seed: int, folder: Path) -> Outcomes:
    """Each read, or refused in one line that names the column; memory is that of the whole part."""
    out = Outcomes(worst_seconds=5.0)
    for i, (name, content) in enumerate(_pictures(seed)):
        if i >= count:
            break
        path = folder / f"{i}.png"
        path.write_bytes(content)
        out.run(name, lambda path=path: _looked_at(path))  # type: ignore[misc]
    return out


def _looked_at(path: Path) -> str:
    for spec in ("image", Image(shape=(1, 8, 8))):
        try:
            Table.fit({"photo": np.array([str(path)] * 2, dtype=object)}, schema={"photo": spec})
        except TableError as error:
            return one_line(error, "refused")
    return "read"


def _pictures(seed: int) -> Iterator[tuple[str, bytes]]:
    from PIL import Image as Pillow

    rng = np.random.default_rng(seed)
    pixels = rng.integers(0, 255, (16, 16, 3)).astype(np.uint8)
    for side in (13_000, 60_000, 2**31 - 1, 0):
        for format, header in (("PNG", _png), ("BMP", _bmp), ("GIF", _gif)):
            yield f"{format} that says {side} × {side}", header(side)
    yield from _OTHERS.items()
    for i in range(7):
        for format in _FORMATS:
            made = io.BytesIO()
            try:
                Pillow.fromarray(pixels).save(made, format)
            except (OSError, KeyError):  # this Pillow does not have it
                continue
            whole = made.getvalue()
            yield (f"{format}, damaged", damaged(whole, rng)) if i else (format, whole)


def _png(side: int) -> bytes:
    header = b"IHDR" + struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)
    parts = (header, b"IDAT" + zlib.compress(bytes(10**6)), b"IEND")
    chunks = (struct.pack(">I", len(part) - 4) + part + struct.pack(">I", zlib.crc32(part)) for part in parts)
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def _bmp(side: int) -> bytes:
    return b"BM" + struct.pack("<IHHIIiiHHIIiiII", 70, 0, 0, 54, 40, side, side, 1, 24, 0, 16, 1, 1, 0, 0)


def _gif(side: int) -> bytes:
    return b"GIF89a" + struct.pack("<HH", side % 65536, side % 65536) + bytes(3)
