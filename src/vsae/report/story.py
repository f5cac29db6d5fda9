"""What was done, in words, with all that is needed to do it again."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from typing import Any

from vsae.fitting.fitted import FittedModel
from vsae.table.errors import counted
from vsae.table.plan import ColumnPlan

_LIBRARIES = ("vsae", "torch", "numpy", "scipy", "scikit-learn", "pandas", "polars", "pyarrow")
_PUT = {
    "mean": "the mean of a number and the most probable level",
    "median": "the median of a number and the most probable level",
    "draw": "one draw of all missing cells of a row together",
}
_KINDS = {
    "binary": "two values",
    "categorical": "few values, no order",
    "ordinal": "few values, in order",
    "count": "whole numbers from 0 on",
    "integer": "whole numbers",
    "positive": "numbers above 0, less skewed as logarithms",
    "real": "numbers",
    "date": "dates",
    "time": "times of day",
    "duration": "durations",
    "image": "images",
}


@dataclass(frozen=True)
class Story:
    sentences: tuple[str, ...]
    versions: Mapping[str, str]
    settings: Mapping[str, str]
    again: str  # a command, or lines of Python


def reason(plan: ColumnPlan, asked: bool) -> str:
    """Why a column was taken for what it was."""
    if plan.kind is None:
        return plan.why or "as asked"
    if asked:
        return "as asked"
    if len(plan.levels) == 1:
        return "one value"
    written = ", written as text" if plan.notation is not None else ""
    return f"{_KINDS.get(plan.kind_name, '')}{written}"


def story(
    fitted: FittedModel[Any],
    *,
    rows: int,
    missing: float,
    vsae: str,
    seed: int | None,
    strategy: str,
    method: str,
    settings: Mapping[str, str],
    again: str,
) -> Story:
    """Of a fit to `rows` rows with that share of missing cells, by that version of the library."""
    config, history = fitted.model.config, fitted.history
    parameters = sum(p.numel() for p in fitted.model.parameters())
    steps = history.records[-1]["step"] if history.records else 0
    tilted = [*fitted.tilts.numbers, *fitted.tilts.thresholds, *fitted.tilts.levels]
    trees = "" if fitted.blend is None else " Trees that read the same rows have a say where they predict better."
    name = "variational selective autoencoder" if method == "vsae" else f"model `{method}`"
    said = [
        f"A {name} of {counted(config.members, 'member')} and {parameters:,} parameters was fitted to {rows:,} rows, "
        f"of whose cells {missing:.1%} were missing.{trees}",
        f"Training ended after {steps:,} steps and {history.seconds:.0f} s ({history.stopped or 'as planned'}); of "
        "each member those weights were kept that predicted held-out cells best.",
        "Intervals and probabilities were calibrated on cells that training had not seen.",
        f"Observed cells stay as they are. A missing cell gets {_PUT[strategy]}.",
        "No column is taken to be missing because of its own value."
        if not tilted
        else f"Missing because of their own value, as far as the mask tells or as was said: "
        f"{', '.join(f'`{name}`' for name in tilted)}; what is drawn for them allows for that.",
        "No seed was given for the fit: save the model to have the same table again."
        if seed is None
        else f"All random numbers follow from the seed {seed}; the same versions on the same kind of machine give the "
        "same table again.",
    ]
    return Story(tuple(said), _versions(vsae), settings, again)


def _versions(ours: str) -> dict[str, str]:
    found = {"Python": platform.python_version(), "vsae": ours}
    for name in _LIBRARIES[1:]:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found | {"system": f"{platform.system()} {platform.machine()}"}
