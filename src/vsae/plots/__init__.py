"""Figures for notebooks: one function a figure, each returns a figure of matplotlib (`pip install 'vsae[plots]'`).

>>> import numpy as np
>>> from vsae import plots
>>> table = {"a": np.array([1.0, np.nan, 3.0]), "b": np.array([np.nan, np.nan, 1.0])}
>>> plots.missing_matrix(table).axes[0].get_title(loc="left")
'Missing cells'
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vsae.plots.figures import distributions as distributions
    from vsae.plots.figures import flux as flux
    from vsae.plots.figures import hidden_cells as hidden_cells
    from vsae.plots.figures import mechanism as mechanism
    from vsae.plots.figures import missing_by as missing_by
    from vsae.plots.figures import missing_matrix as missing_matrix
    from vsae.plots.figures import pairs as pairs
    from vsae.plots.figures import patterns as patterns
    from vsae.plots.figures import sensitivity as sensitivity
    from vsae.plots.figures import tipping_map as tipping_map
    from vsae.plots.figures import training as training
    from vsae.plots.figures import uncertainty as uncertainty

__all__ = [
    "distributions",
    "flux",
    "hidden_cells",
    "mechanism",
    "missing_by",
    "missing_matrix",
    "pairs",
    "patterns",
    "sensitivity",
    "tipping_map",
    "training",
    "uncertainty",
]


def __getattr__(name: str) -> Any:
    """What a figure shows is computed without matplotlib, which the report does not need."""
    if name not in __all__:
        raise AttributeError(f"module 'vsae.plots' has no attribute {name!r}")
    try:
        return getattr(import_module("vsae.plots.figures"), name)
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] != "matplotlib":
            raise
        raise ImportError("figures need matplotlib, which is not installed; pip install 'vsae[plots]'") from None
