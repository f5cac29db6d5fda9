"""The scikit-learn estimator."""

from vsae.estimator.imputer import VSAEImputer, load
from vsae.estimator.values import MISSING, Interval, Strategy

__all__ = ["MISSING", "Interval", "Strategy", "VSAEImputer", "load"]
