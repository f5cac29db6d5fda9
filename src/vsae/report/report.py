"""`Report`: a page that a notebook shows, and that is saved as one file."""

from __future__ import annotations

import html
from dataclasses import dataclass, field
from typing import final

from vsae.storage.atomic import AnyPath, write_text


@final
@dataclass(frozen=True)
class Report:
    """What `VSAEImputer.report` gives: `html` is the whole page, `save` writes it."""

    title: str
    html: str = field(repr=False)

    def save(self, path: AnyPath) -> None:
        """One file that opens offline; it is there whole or not at all."""
        write_text(path, self.html)

    def _repr_html_(self) -> str:
        """In a frame of its own, so that neither the notebook's style nor its scripts meet those of the page."""
        frame = 'style="width:100%;height:80vh;border:1px solid #8884;border-radius:8px" sandbox="allow-scripts"'
        return f'<iframe {frame} srcdoc="{html.escape(self.html, quote=True)}"></iframe>'
