"""vsae: one deep generative model of rows with holes.

It learns the joint distribution of heterogeneous attributes and of the mask that says what is missing, and from one
fit it imputes, draws multiple imputations, generates data and masks, and embeds rows.

Names are imported when they are first used, so that `import vsae` costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from vsae.config import VSAEConfig as VSAEConfig
    from vsae.fitting import fit as fit
    from vsae.imputation import FittedVSAE as FittedVSAE
    from vsae.model import VSAE as VSAE
    from vsae.schema import Kind as Kind
    from vsae.schema import Schema as Schema

_HOME = {
    "FittedVSAE": "vsae.imputation",
    "Kind": "vsae.schema",
    "Schema": "vsae.schema",
    "VSAE": "vsae.model",
    "VSAEConfig": "vsae.config",
    "fit": "vsae.fitting",
}

__all__ = ["VSAE", "FittedVSAE", "Kind", "Schema", "VSAEConfig", "__version__", "fit"]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    raise AttributeError(f"module 'vsae' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
