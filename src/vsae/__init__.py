"""vsae: one deep generative model of rows with missing values.

It learns the joint distribution of heterogeneous attributes and of the mask that says what is missing, and from one
fit it imputes, draws multiple imputations, generates data and masks, and embeds rows.

Names are imported when they are first used, so that `import vsae` costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from vsae.analysis.draws import Draws as Draws
    from vsae.data.schema import Kind as Kind
    from vsae.data.schema import Schema as Schema
    from vsae.estimator import MISSING as MISSING
    from vsae.estimator import Interval as Interval
    from vsae.estimator import VSAEImputer as VSAEImputer
    from vsae.estimator import load as load
    from vsae.evaluation.pooling import Pooled as Pooled
    from vsae.evaluation.pooling import pool as pool
    from vsae.evaluation.report import Evaluation as Evaluation
    from vsae.fitting.fit import fit as fit
    from vsae.fitting.fitted import FittedVSAE as FittedVSAE
    from vsae.model.config import VSAEConfig as VSAEConfig
    from vsae.model.vsae import VSAE as VSAE
    from vsae.table import Binary as Binary
    from vsae.table import Categorical as Categorical
    from vsae.table import Count as Count
    from vsae.table import DataWarning as DataWarning
    from vsae.table import Date as Date
    from vsae.table import Duration as Duration
    from vsae.table import Image as Image
    from vsae.table import Integer as Integer
    from vsae.table import Keep as Keep
    from vsae.table import Ordinal as Ordinal
    from vsae.table import Positive as Positive
    from vsae.table import Real as Real
    from vsae.table import TableError as TableError
    from vsae.table import Time as Time

_HOME = {
    "Binary": "vsae.table",
    "Categorical": "vsae.table",
    "Count": "vsae.table",
    "DataWarning": "vsae.table",
    "Date": "vsae.table",
    "Duration": "vsae.table",
    "Draws": "vsae.analysis.draws",
    "Evaluation": "vsae.evaluation.report",
    "FittedVSAE": "vsae.fitting.fitted",
    "Image": "vsae.table",
    "Integer": "vsae.table",
    "Interval": "vsae.estimator",
    "Keep": "vsae.table",
    "Kind": "vsae.data.schema",
    "MISSING": "vsae.estimator",
    "Ordinal": "vsae.table",
    "Pooled": "vsae.evaluation.pooling",
    "Positive": "vsae.table",
    "Real": "vsae.table",
    "Schema": "vsae.data.schema",
    "TableError": "vsae.table",
    "Time": "vsae.table",
    "VSAE": "vsae.model.vsae",
    "VSAEConfig": "vsae.model.config",
    "VSAEImputer": "vsae.estimator",
    "fit": "vsae.fitting.fit",
    "load": "vsae.estimator",
    "pool": "vsae.evaluation.pooling",
}

__all__ = [
    "MISSING",
    "VSAE",
    "Binary",
    "Categorical",
    "Count",
    "DataWarning",
    "Date",
    "Draws",
    "Duration",
    "Evaluation",
    "FittedVSAE",
    "Image",
    "Integer",
    "Interval",
    "Keep",
    "Kind",
    "Ordinal",
    "Pooled",
    "Positive",
    "Real",
    "Schema",
    "TableError",
    "Time",
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
