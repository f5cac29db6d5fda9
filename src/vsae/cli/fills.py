"""What is said of the cells that were filled, and of those that were left."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from vsae.cli.messages import fail, note, warn
from vsae.table.errors import counted

if TYPE_CHECKING:
    from vsae.table.fills import Fill


def report_fills(found: list[Fill], absent: list[Any], quiet: bool) -> None:
    """Say how many cells of each column are filled, and which are left and why; fail where all are left."""
    some = [fill for fill in found if fill.size]
    left = {(str(fill.label), fill.left): fill.size for fill in some if fill.left}
    report_counts({str(fill.label): fill.size for fill in some if not fill.left}, left, absent, quiet)


def report_counts(
    filled: Mapping[str, int], left: Mapping[tuple[str, str], int], absent: list[Any], quiet: bool
) -> None:
    """Likewise of cells by column, and of those that are left by column and reason."""
    if absent:
        names = ", ".join(repr(str(label)) for label in absent[:10]) + (", …" if len(absent) > 10 else "")
        warn(f"the model knows columns that the table does not have, and they are not added: {names}")
    for (label, why), size in left.items():
        warn(f"{counted(size, 'missing cell')} of column {label!r} left empty: {why}")
    if left and not filled:
        fail(f"no missing cell could be filled; {counted(sum(left.values()), 'cell')} would be left empty")
    columns = ", ".join(f"{label} {size}" for label, size in filled.items())
    note(f"filled {counted(sum(filled.values()), 'cell')}" + (f": {columns}" if filled else ""), quiet)
