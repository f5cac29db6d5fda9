"""What is said of the cells that were filled, and of those that were left."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vsae.cli.messages import fail, note, warn
from vsae.table.errors import counted

if TYPE_CHECKING:
    from vsae.table.fills import Fill


def report_fills(found: list[Fill], absent: list[Any], quiet: bool) -> None:
    """Say how many cells of each column are filled, and which are left and why; fail where all are left."""
    some = [fill for fill in found if fill.size]
    filled, left = [f for f in some if not f.left], [f for f in some if f.left]
    if absent:
        names = ", ".join(repr(str(label)) for label in absent[:10]) + (", …" if len(absent) > 10 else "")
        warn(f"the model knows columns that the table does not have, and they are not added: {names}")
    for fill in left:
        warn(f"{counted(fill.size, 'missing cell')} of column {str(fill.label)!r} left empty: {fill.left}")
    if left and not filled:
        fail(f"no missing cell could be filled; {counted(sum(f.size for f in left), 'cell')} would be left empty")
    columns = ", ".join(f"{fill.label} {fill.size}" for fill in filled)
    note(f"filled {counted(sum(f.size for f in filled), 'cell')}" + (f": {columns}" if filled else ""), quiet)
