"""A column whose observed part is cut off: a censored regression, Tobin's, on the model's own estimate.

Of a missing cell only that it lies beyond the cut is known, of an observed one its value; the likelihood of both has
three parameters beside the cut, which is the outermost value seen. It is preferred to a tilt where that is steep, and
where the observed values end as if cut off: not in a tail, as most distributions do, and not in many cells of one
value, as at a bound. On five tables kept for development it was right in 16 of 19 columns of numbers that were cut off
at their mean, and wrong in 2 of about 200 that hide by a logistic law.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import log_ndtr

from vsae.imputation.thresholds import Threshold

_STEEP = 2.0  # slope of a tilt, in standard units
_SHARP = (0.03, 0.2)  # of the way from the median to the end of what is seen: the outermost twentieth, if it is cut off
_FEWEST_CELLS = 50
_WIDENED = 1.5  # times the errors on what is seen is σ, to begin with: half a normal is narrower than a whole one
_NARROWEST = 0.1
_LEANING = 2.0  # nats for a gain of 0 or 2, where 1 is what is expected


def fit_threshold(
    estimate: NDArray[np.float64], x: NDArray[np.float64], missing: NDArray[np.bool_], slope: float
) -> Threshold | None:
    """From the model's estimates of a column, made without looking at it, its cells, and its mask, (n,) each; and
    the slope of its tilt, whose sign says on which side it would be cut off. None if it is not."""
    sign = 1 if slope > 0 else -1
    seen = sign * x[~missing]
    if abs(slope) < _STEEP or min(len(seen), missing.sum()) < _FEWEST_CELLS:
        return None
    cut, middle = float(seen.max()), float(np.median(seen))
    low, high = _SHARP
    if not low * (cut - middle) < cut - np.quantile(seen, 0.95) < high * (cut - middle):
        return None
    inner = max(_NARROWEST, _WIDENED * float(np.sqrt(((x - estimate)[~missing] ** 2).mean())))
    start = Threshold(float(sign), sign * cut, inner, 0.0, 1.0, inner)
    mean = start.mean(torch.from_numpy(estimate)).numpy()

    def loss(parameters: NDArray[np.float64]) -> float:
        shift, gain, log_std = parameters
        centre, std = shift + gain * mean, np.exp(log_std)
        off = (seen - centre[~missing]) / std
        beyond = log_ndtr((centre[missing] - cut) / std)
        return float((0.5 * off**2 + log_std).sum() - beyond.sum() + _LEANING * (gain - 1) ** 2)

    shift, gain, log_std = minimize(loss, [0.0, 1.0, np.log(inner)], method="Nelder-Mead").x
    return start._replace(shift=float(shift), gain=float(gain), std=float(np.exp(log_std)))
