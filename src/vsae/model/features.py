"""Numbers as the proposal networks read them: a few fixed features of each, so that small nets can bend where data do.

    plain  y itself
    rich   y clipped to ±8, its normal score Φ⁻¹(F(y)) under the training column's distribution F, and where y lies in
           each of 12 bins between values of the column (0 below the bin, 1 above it, linear inside)

The bins make a piecewise-linear function of y a linear map of its features; the normal score tames skewed columns.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from vsae.data.microaggregation import microaggregated
from vsae.data.weights import systematic
from vsae.model.config import FeatureSet

BINS = 12  # pieces of a piecewise-linear function: a few dozen rows lie in each bin of a table of 500
_KNOTS = 33  # of the piecewise-linear normal score, evenly spaced in it, so that tails are told apart
_FARTHEST_SCORE = 3.0  # of a knot; beyond the outermost, a score grows as the number does
_MOST_CELLS = 100_000  # that quantiles are taken of
_COPIES = 4  # of a cell, on average, where weights say how often each is there
_FARTHEST = 8.0  # standard deviations: an outlier must not swamp a layer's other inputs


class NumberFeatures(nn.Module):
    """(…, variables) standardised numbers → (…, variables, width) features; `fit` first, if rich.

    >>> features = NumberFeatures(1, "rich")
    >>> features.fit(torch.linspace(-1, 1, 101)[:, None], torch.ones(101, 1, dtype=torch.bool))
    >>> features(torch.tensor([[0.0]])).shape
    torch.Size([1, 1, 14])
    """

    knots: Tensor
    scores: Tensor
    edges: Tensor

    def __init__(self, variables: int, kind: FeatureSet) -> None:
        super().__init__()
        self.rich = kind == "rich"
        self.width = 2 + BINS if self.rich else 1
        if self.rich:
            score = torch.linspace(-_FARTHEST_SCORE, _FARTHEST_SCORE, _KNOTS)
            self.register_buffer("scores", score, persistent=False)
            # until fitted: those of a standard normal column
            self.register_buffer("knots", score.expand(variables, -1).clone())
            edge = math.sqrt(2) * torch.erfinv(2 * (torch.arange(BINS + 1) + 0.5) / (BINS + 1) - 1)
            self.register_buffer("edges", edge.expand(variables, -1).clone())

    @torch.no_grad()
    def fit(self, numbers: Tensor, observed: Tensor, weight: Tensor | None = None) -> None:
        """Take the quantiles of the observed cells of each column; (n, variables) both, and weights of rows (n,)."""
        if not self.rich:
            return
        for j in range(numbers.shape[1]):  # once a fit, not once a step
            seen = observed[:, j]
            column = _thinned(numbers[seen, j].double(), None if weight is None else weight[seen])
            if len(column):
                column = torch.from_numpy(microaggregated(column.cpu().numpy())).to(column.device)
                level = torch.special.ndtr(self.scores.double())
                self.knots[j] = _increasing(torch.quantile(column, level)).float()
                self.edges[j] = _edges(column).float()

    def forward(self, numbers: Tensor, scores: Tensor | None = None) -> Tensor:
        """`scores`: their normal scores, where these are known."""
        if not self.rich:
            return numbers[..., None]
        scores = (self._scores(numbers) if scores is None else scores).clamp(-_FARTHEST, _FARTHEST)
        clipped = numbers.clamp(-_FARTHEST, _FARTHEST)
        low, slope = self.edges[:, :-1], 1 / self.edges.diff(dim=-1)
        bins = torch.addcmul(-low * slope, numbers[..., None], slope).clamp_(0.0, 1.0)
        return torch.cat([clipped[..., None], scores[..., None], bins], dim=-1)

    @staticmethod
    def score(features: Tensor) -> Tensor:
        """The normal score among the features, or the number itself where there is none."""
        return features[..., min(1, features.shape[-1] - 1)]

    def number(self, scores: Tensor) -> Tensor:
        """The numbers that have these normal scores; the inverse of `score`."""
        if not self.rich:
            return scores
        inside = scores.clamp(-_FARTHEST_SCORE, _FARTHEST_SCORE)
        place = (inside + _FARTHEST_SCORE) * ((_KNOTS - 1) / (2 * _FARTHEST_SCORE))
        left = place.long().clamp(0, _KNOTS - 2)  # (…, variables)
        variable = torch.arange(self.knots.shape[0], device=scores.device)
        below, above = self.knots[variable, left], self.knots[variable, left + 1]
        return torch.lerp(below, above, place - left) + scores - inside

    def _scores(self, numbers: Tensor) -> Tensor:
        """Linear interpolation between the knots of each variable."""
        flat = numbers.flatten(0, -2).T.contiguous()  # (variables, rows)
        right = torch.searchsorted(self.knots, flat).clamp(1, _KNOTS - 1)
        x0, x1 = self.knots.gather(1, right - 1), self.knots.gather(1, right)
        share = ((flat - x0) / (x1 - x0)).clamp(0.0, 1.0)
        scores = torch.lerp(self.scores[right - 1], self.scores[right], share)
        scores = scores + flat - flat.clamp(self.knots[:, :1], self.knots[:, -1:])
        return scores.T.reshape(numbers.shape)


def _thinned(column: Tensor, weight: Tensor | None) -> Tensor:
    """torch.quantile takes at most 16 million numbers, and needs far fewer; none has weights."""
    if weight is not None and len(column):
        column, order = column.sort()
        return column[systematic(weight[order], min(_COPIES * len(column), _MOST_CELLS))]
    return column[:: max(1, len(column) // _MOST_CELLS)]


def _edges(column: Tensor) -> Tensor:
    """BINS + 1 edges: quantiles, or every value there is, if these are few.

    Where many cells share a value, quantiles coincide; those to spare go to values in between, so that a column of a
    few whole numbers has them all told apart.
    """
    values, wanted = column.unique(), BINS + 1
    if len(values) <= wanted:
        beyond = torch.arange(1, wanted - len(values) + 1, device=column.device)  # no cell gets there
        return _increasing(torch.cat([values, values[-1] + beyond]))
    level = torch.linspace(0, 1, wanted, device=column.device, dtype=column.dtype)
    edges = torch.quantile(column, level).unique()
    others = values[~torch.isin(values, edges)]
    spare = torch.linspace(0, len(others) - 1, wanted - len(edges), device=column.device).round().long()
    return _increasing(torch.cat([edges, others[spare]]).sort().values)


def _increasing(knots: Tensor) -> Tensor:
    """Strictly increasing knots: ties (of columns with few values) get a hair's breadth."""
    return knots + 1e-4 * torch.arange(len(knots), device=knots.device, dtype=knots.dtype)
