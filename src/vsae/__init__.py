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
    from vsae.estimator import MISSING as MISSING
    from vsae.estimator import Interval as Interval
    from vsae.estimator import VSAEImputer as VSAEImputer
    from vsae.estimator import load as load
    from vsae.fitted import FittedVSAE as FittedVSAE
    from vsae.fitting import fit as fit
    from vsae.model import VSAE as VSAE
    from vsae.pooling import Pooled as Pooled
    from vsae.pooling import pool as pool
    from vsae.schema import Kind as Kind
    from vsae.schema import Schema as Schema
    from vsae.table import Binary as Binary
    from vsae.table import Categorical as Categorical
    from vsae.table import Count as Count
    from vsae.table import DataWarning as DataWarning
    from vsae.table import Image as Image
    from vsae.table import Keep as Keep
    from vsae.table import Ordinal as Ordinal
    from vsae.table import Positive as Positive
    from vsae.table import Real as Real
    from vsae.table import TableError as TableError

_HOME = {
    "Binary": "vsae.table",
    "Categorical": "vsae.table",
    "Count": "vsae.table",
    "DataWarning": "vsae.table",
    "FittedVSAE": "vsae.fitted",
    "Image": "vsae.table",
    "Interval": "vsae.estimator",
    "Keep": "vsae.table",
    "Kind": "vsae.schema",
    "MISSING": "vsae.estimator",
    "Ordinal": "vsae.table",
    "Pooled": "vsae.pooling",
    "Positive": "vsae.table",
    "Real": "vsae.table",
    "Schema": "vsae.schema",
    "TableError": "vsae.table",
    "VSAE": "vsae.model",
    "VSAEConfig": "vsae.config",
    "VSAEImputer": "vsae.estimator",
    "fit": "vsae.fitting",
    "load": "vsae.estimator",
    "pool": "vsae.pooling",
}

__all__ = [
    "MISSING",
    "VSAE",
    "Binary",
    "Categorical",
    "Count",
    "DataWarning",
    "FittedVSAE",
    "Image",
    "Interval",
    "Keep",
    "Kind",
    "Ordinal",
    "Pooled",
    "Positive",
    "Real",
    "Schema",
    "TableError",
    "VSAEConfig",
    "VSAEImputer",
    "__version__",
    "fit",
    "load",
    "pool",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(_HOME[name]), name)
    raise AttributeError(f"module 'vsae' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
