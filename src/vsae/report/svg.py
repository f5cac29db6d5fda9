"""Small figures as SVG: they are drawn by hand, crisp in print, and take their colours from the page."""

from __future__ import annotations

import base64
import math
import struct
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vsae.report.markup import attribute, text

_BLUE = (43, 118, 181)  # on white and on black; more or less of it is more or less missing
_SHADES = 16


def ticks(low: float, high: float, most: int = 5) -> list[float]:
    """Round numbers from `low` to `high`.

    >>> ticks(0, 97, 5)
    [0.0, 25.0, 50.0, 75.0]
    >>> ticks(0.1, 0.3, 4)
    [0.1, 0.2, 0.3]
    """
    if not high > low:
        return [low]
    rough = (high - low) / max(1, most - 1)
    power = 10 ** math.floor(math.log10(rough))
    step = next((m * power for m in (1, 2, 2.5, 5) if m * power >= rough * 0.999), 10 * power)
    start = math.ceil(low / step - 1e-9)
    return [round(i * step, 12) for i in range(start, math.floor(high / step + 1e-9) + 1)]


def short(x: float) -> str:
    """
    >>> short(12000), short(0.25), short(2500000), short(-0.0)
    ('12k', '0.25', '2.5M', '0')
    """
    for size, sign in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(x) >= size:
            return f"{x / (1000 if sign == 'k' else size):.4g}{sign}"
    return f"{x + 0.0:.4g}"


@dataclass
class Plot:
    """A figure with axes; positions in its own units, `x` and `y` take those of the data."""

    xs: tuple[float, float]
    ys: tuple[float, float]
    width: float = 280
    height: float = 150
    left: float = 34
    bottom: float = 24
    top: float = 8
    right: float = 10
    parts: list[str] = field(default_factory=list)

    def x(self, value: float) -> float:
        low, high = self.xs
        return self.left + (value - low) / ((high - low) or 1) * (self.width - self.left - self.right)

    def y(self, value: float) -> float:
        low, high = self.ys
        return self.height - self.bottom - (value - low) / ((high - low) or 1) * (self.height - self.top - self.bottom)

    def add(self, part: str) -> None:
        self.parts.append(part)

    def line(self, points: Sequence[tuple[float, float]], kind: str) -> None:
        """Through points in units of the data."""
        path = "L".join(f"{self.x(a):.1f} {self.y(b):.1f}" for a, b in points)
        self.add(f'<path class="{kind}" d="M{path}"/>')

    def segments(self, ends: Sequence[tuple[float, float, float, float]], kind: str) -> None:
        """Many lines as one path; a line without length is a dot."""
        path = "".join(
            f"M{self.x(a):.1f} {self.y(b):.1f}" + ("h0" if (a, b) == (c, d) else f"L{self.x(c):.1f} {self.y(d):.1f}")
            for a, b, c, d in ends
        )
        if path:
            self.add(f'<path class="{kind}" d="{path}"/>')

    def dots(self, points: Sequence[tuple[float, float]], kind: str) -> None:
        self.segments([(a, b, a, b) for a, b in points], f"dots {kind}")

    def hover(self, x: float, y: float, width: float, height: float, said: str) -> None:
        """A place, in units of the figure, that says something."""
        size = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"'
        self.add(f'<rect class="hit" {size}{attribute("data-t", said)}/>')

    def label(self, x: float, y: float, said: Any, kind: str = "") -> None:
        self.add(f'<text x="{x:.1f}" y="{y:.1f}"{attribute("class", kind)}>{text(said)}</text>')

    def x_axis(self, at: Sequence[float], show: Callable[[float], str] = short, title: str = "") -> None:
        base = self.height - self.bottom
        self.add(f'<path class="axis" d="M{self.left:.1f} {base:.1f}H{self.width - self.right:.1f}"/>')
        for value in at:
            x = self.x(value)
            end = " end" if x > self.width - 24 else " start" if x < 12 else ""
            self.label(x, base + 13, show(value), f"mid{end}")
        if title:
            self.label((self.left + self.width - self.right) / 2, self.height - 2, title, "mid title")

    def y_axis(self, at: Sequence[float], show: Callable[[float], str] = short, *, grid: bool = True) -> None:
        if grid:
            lines = "".join(f"M{self.left:.1f} {self.y(v):.1f}H{self.width - self.right:.1f}" for v in at)
            self.add(f'<path class="grid" d="{lines}"/>')
        for value in at:
            self.label(self.left - 5, self.y(value) + 3.5, show(value), "end")

    def svg(self, said: str, kind: str = "") -> str:
        size = f'viewBox="0 0 {self.width:g} {self.height:g}"'
        own = f' width="{self.width:g}"' if kind == "fixed" else ""
        head = f'<svg class="plot {kind}" {size}{own} role="img"{attribute("aria-label", said)}>'
        return f"{head}{''.join(self.parts)}</svg>"


def shaded_png(share: NDArray[np.float64]) -> str:
    """Numbers from 0 to 1, (rows, columns), as an image that is clear where they are 0: a `data:` address.

    >>> shaded_png(np.zeros((1, 1)))[:22]
    'data:image/png;base64,'
    """
    shade = np.where(share > 0, np.maximum(1, np.rint(share * _SHADES)), 0).astype(np.uint8)
    height, width = shade.shape
    lines = np.concatenate([np.zeros((height, 1), dtype=np.uint8), shade], axis=1)  # each begins with its filter, none
    palette = bytes(_BLUE) * (_SHADES + 1)
    clear = bytes(round(255 * i / _SHADES) for i in range(_SHADES + 1))
    content = b"".join(
        [
            b"\x89PNG\r\n\x1a\n",
            _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)),
            _chunk(b"PLTE", palette),
            _chunk(b"tRNS", clear),
            _chunk(b"IDAT", zlib.compress(lines.tobytes(), 9)),
            _chunk(b"IEND", b""),
        ]
    )
    return f"data:image/png;base64,{base64.b64encode(content).decode()}"


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
