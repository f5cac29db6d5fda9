"""Filling holes with any fitted model: point imputations, probabilities, draws, quantiles.

Rows are worked through in chunks whose size follows from the model's, so memory stays bounded for any number of rows.
Point imputations use the same latent noise for every row: a row's result depends on nothing but the row (except where
the `paper` preset fills holes with noise).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from vsae.data.batch import Batch
from vsae.data.encoding import Columns, Encoding, Mask, as_dtype, numeric_blocks
from vsae.data.randomness import generator, private_rng
from vsae.data.schema import DISCRETE, Block, Family, Schema
from vsae.imputation.parameter_uncertainty import FitError
from vsae.imputation.residual_quantiles import Shapes
from vsae.imputation.shrinkage import Trust, log_odds
from vsae.model.latent_model import Draws, ModelT, Noise
from vsae.model.likelihoods import Gaussian, Levels, Loose, Vector
from vsae.training.loop import History

_RAREST = 1e-9  # probability of a level
_TILTS = 2
_FEWEST_SAMPLES = 12  # of all members together, to tell an estimate and its spread from
CHUNK_NUMBERS = 2**26  # floats alive at once in one decoded chunk: about 256 MB


@dataclass
class FittedModel(Generic[ModelT]):
    """A trained model with the encoding it was trained on. All methods take and give natural units.

    `columns` maps variable names to arrays (level codes for discrete variables); `mask` (n, M) is over attributes,
    True = observed. What is not observed is never read.

    `weighted` draws are importance samples: they are weighted by how well they explain what is observed, so a few
    hundred are wanted. None: as the model does it by itself.
    """

    model: ModelT
    encoding: Encoding
    history: History = field(default_factory=History)
    trust: Trust | None = None
    shapes: Mapping[str, Shapes] = field(default_factory=dict)  # of drawn numbers, by block; none: normal

    @property
    def schema(self) -> Schema:
        return self.encoding.schema

    @property
    def device(self) -> torch.device:
        return self.model.device

    def impute(
        self, columns: Columns, mask: Mask, *, draws: int | None = None, weighted: bool | None = None
    ) -> dict[str, NDArray[Any]]:
        """Every hole filled with its mean (numbers) or mode (levels) over latent draws and members."""
        return self._fill(columns, mask, self._point(self.estimates(columns, mask, draws=draws, weighted=weighted)))

    def estimates(
        self, columns: Columns, mask: Mask, *, draws: int | None = None, weighted: bool | None = None
    ) -> dict[str, NDArray[Any]]:
        """Per variable: means of numbers (n,) and vectors (n, d), probabilities of levels (n, levels)."""
        samples = self._even(draws)
        parts = [self._estimate(batch, samples, weighted) for _, batch in self._chunks(columns, mask, samples)]
        out: dict[str, NDArray[Any]] = {}
        for block in self.schema.blocks:
            out |= per_variable(block, np.concatenate([part[block.name] for part in parts]))
        return out if self.trust is None else self.trust(out)

    def probabilities(
        self, columns: Columns, mask: Mask, *, draws: int | None = None
    ) -> dict[str, NDArray[np.float64]]:
        """P(level | x_o, m) of every discrete variable, (n, levels); observed cells come from their own latent."""
        levels = {v.name for v in self.schema.variables if v.family in DISCRETE}
        return {n: x for n, x in self.estimates(columns, mask, draws=draws).items() if n in levels}

    def draw(self, columns: Columns, mask: Mask, n: int, *, seed: int = 0) -> list[dict[str, NDArray[Any]]]:
        """`n` completed tables, each hole a draw from p(x_u | x_o, m): latents, members and noise all vary."""
        if n < 1:
            raise ValueError(f"asked for {n} draws; ask for at least 1")
        stacked = self._all_draws(columns, mask, n, seed)
        return [
            self._fill(columns, mask, self.encoding.decode({name: x[i] for name, x in stacked.items()}))
            for i in range(n)
        ]

    def _all_draws(self, columns: Columns, mask: Mask, n: int, seed: int) -> dict[str, NDArray[Any]]:
        """(n, rows, …) per block in standard units."""
        common = self._fit_error(n, seed)
        pieces = [
            self._draws(batch, n, generator(seed, start, self.device), common)
            for start, batch in self._chunks(columns, mask, max(n, self._samples(n)))
        ]
        return {name: np.concatenate([piece[name] for piece in pieces], axis=1) for name in pieces[0]}

    def quantiles(
        self, columns: Columns, mask: Mask, levels: Sequence[float], *, draws: int = 200, seed: int = 0
    ) -> list[dict[str, NDArray[Any]]]:
        """For each level a table whose holes hold that quantile of their draws; discrete holes hold their mode."""
        pieces: list[dict[str, NDArray[Any]]] = []
        for start, batch in self._chunks(columns, mask, max(draws, self._samples(draws))):
            drawn = self._draws(batch, draws, generator(seed, start, self.device))
            numbers = {block.name for block in numeric_blocks(self.schema)}
            pieces.append({name: np.quantile(x, levels, axis=0) for name, x in drawn.items() if name in numbers})
        cuts = {name: np.concatenate([piece[name] for piece in pieces], axis=1) for name in pieces[0]}
        middle = self.impute(columns, mask)
        tables = []
        for i in range(len(levels)):  # units are monotone, so a quantile may be taken before them
            natural = self.encoding.decode({name: x[i] for name, x in cuts.items()})
            tables.append(self._fill(columns, mask, {**middle, **natural}))
        return tables

    def _samples(self, n: int) -> int:
        """Latent draws of a member, for `n` of all of them."""
        fewest = _FEWEST_SAMPLES if self.shapes or self.trust else 1
        return max(-(-max(n, fewest) // self.model.config.members), self.model.importance_samples)

    def _fit_error(self, n: int, seed: int) -> FitError | None:
        """What is wrong in all rows of a drawn table alike; None: nothing."""
        return None

    # --- the work on one chunk

    def _ranges(self, rows: int, draws: int = 1) -> Iterator[tuple[int, int]]:
        """(start, length) of chunks of bounded memory."""
        size = max(1, CHUNK_NUMBERS // (self.model.config.members * draws * self.model.numbers_per_row))
        for start in range(0, rows, size):
            yield start, min(size, rows - start)

    def _chunks(self, columns: Columns, mask: Mask, draws: int) -> Iterator[tuple[int, Batch]]:
        data = self.encoding.encode(columns, mask)
        for start, rows in self._ranges(data.rows, draws):
            yield start, data.take(slice(start, start + rows)).to(self.device).for_members()

    def _even(self, draws: int | None) -> int:
        """Latent draws come in mirrored pairs."""
        draws = draws or self.model.importance_samples or self.model.config.latent_draws
        return max(2, draws + draws % 2)

    def _shared_noise(self, samples: int) -> Noise:
        """The same for every row, from torch's own generator."""
        return Noise(self.model.config.members, samples, rows=1, mirrored=True)

    @torch.no_grad()
    def _estimate(self, batch: Batch, samples: int, weighted: bool | None) -> dict[str, NDArray[Any]]:
        """Averaged over draws and members: natural-unit means of numbers, probabilities of levels."""
        with private_rng(0, self.device):
            draws = self.model.draws(batch, self._shared_noise(samples), weighted)
        return {name: self._average(name, draws, samples) for name in draws.data}

    def _average(self, name: str, draws: Draws, samples: int) -> NDArray[Any]:
        distribution = draws.data[name]

        def mean(x: Tensor) -> NDArray[Any]:
            """(E, S·B, …) → (B, …)"""
            x = x.unflatten(1, (samples, -1)).double()
            if draws.log_weight is None:
                return x.mean(dim=(0, 1)).cpu().numpy()
            weight = torch.softmax(draws.log_weight.double(), dim=1)  # (E, S, B)
            return (x * weight.view(*weight.shape, *[1] * (x.dim() - 3))).sum(1).mean(0).cpu().numpy()

        if not isinstance(distribution, Gaussian | Vector):
            return mean(distribution.mean)
        if self.encoding.affine(name):  # the mean may be taken first
            return self.encoding.expected(name, mean(distribution.mean), np.zeros(()))
        # not the σ of draws: where a bound is the value of most cells, a mean was trained to go with its own
        trained = distribution.trained_scale if isinstance(distribution, Gaussian) else distribution.scale
        loc, scale = (x.flatten(0, 1).cpu().numpy() for x in (distribution.mean, trained))
        natural = torch.from_numpy(self.encoding.expected(name, loc, scale))
        return mean(natural.unflatten(0, distribution.mean.shape[:2]).to(self.device))

    def _point(self, estimates: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        out: dict[str, NDArray[Any]] = {}
        for block in self.schema.blocks:
            x = [estimates[variable.name] for variable in block.variables]
            if block.family in DISCRETE:
                x = [share.argmax(axis=1) for share in x]
            elif block.family is Family.INTERVAL:
                x = list(self.encoding.admissible(block.name, np.stack(x, axis=1)).T)
            out |= {variable.name: values for variable, values in zip(block.variables, x, strict=True)}
        return out

    @torch.no_grad()
    def _draws(
        self, batch: Batch, n: int, rng: torch.Generator, common: FitError | None = None
    ) -> dict[str, NDArray[Any]]:
        """(n, B, …) per block in standard units; draw i is member i mod E's."""
        members, samples = self.model.config.members, self._samples(n)
        with private_rng(int(torch.randint(2**31, (1,), generator=rng, device=self.device)), self.device):
            draws = self.model.draws(batch, Noise(members, samples, batch.rows, rng))
        deviates = {} if common is None else common.deviates(batch, rng)
        drawn = {}
        for name, x in draws.data.items():
            if isinstance(x, Gaussian):
                drawn[name] = x.sample(rng, deviates.get(name))
                if name in self.shapes and draws.log_weight is None:
                    drawn[name] = self.shapes[name](x, drawn[name], samples, rng)
            elif isinstance(x, Levels) and self.trust is not None and draws.log_weight is None:
                block = next(block for block in self.schema.blocks if block.name == name)
                hidden = ~batch.mask[0, :, list(block.attributes)].all(-1)
                drawn[name] = self._levels(block, x, hidden, samples, rng)
            else:
                drawn[name] = x.sample(rng)
        drawn = {name: x.unflatten(1, (samples, -1)) for name, x in drawn.items()}  # (E, S, B, …)
        if draws.log_weight is not None:
            chosen = _resampled(draws.log_weight, -(-n // members), rng)  # (E, each, B)
            drawn = {name: _along_draws(x, chosen) for name, x in drawn.items()}
        return {name: dealt(x, n) for name, x in drawn.items()}

    def _levels(self, block: Block, x: Levels, hidden: Tensor, samples: int, rng: torch.Generator) -> Tensor:
        """Codes, (E, samples · B, variables), of rows (B,) in which some are hidden; in others they are not wanted."""
        members, size = len(x.mean), len(hidden)
        drawn = torch.zeros(members, samples, size, len(block), dtype=torch.long, device=hidden.device)
        rows = hidden.nonzero()[:, 0]
        if len(rows):
            every = (torch.arange(samples, device=rows.device)[:, None] * size + rows).flatten()
            some = self._as_stated(block, x.take(every), samples)
            drawn[:, :, rows] = some.sample(rng).unflatten(1, (samples, -1))
        return drawn.flatten(1, 2)

    def _as_stated(self, block: Block, x: Levels, samples: int) -> Levels | Loose:
        """All draws tilted alike, for levels to come up as often as is stated."""
        assert self.trust is not None

        def decoded() -> NDArray[np.float64]:
            """(B, …)"""
            return tilted.mean.unflatten(1, (samples, -1)).mean((0, 1)).double().cpu().numpy()

        size = log_odds if block.family is Family.BERNOULLI else (lambda share: np.log(np.maximum(share, _RAREST)))
        tilted: Levels | Loose = x
        shares = decoded()
        stated = side_by_side(block, self.trust(per_variable(block, shares)))
        tilt = torch.zeros(stated.shape).to(x.mean)
        for i in range(_TILTS):  # a mean of tilted shares is not a tilted mean: it takes more than one
            shares = shares if i == 0 else decoded()
            tilt = tilt + torch.from_numpy(size(stated) - size(shares)).to(tilt)
            tilted = x.tilted(tilt.repeat(samples, *[1] * (tilt.dim() - 1)))
        return tilted

    def _fill(self, columns: Columns, mask: Mask, imputed: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Observed cells as they came, bit for bit; the others imputed, in the column's own dtype."""
        out: dict[str, NDArray[Any]] = {}
        for variable in self.schema.variables:
            column = np.asarray(columns[variable.name])
            observed = mask[:, self.schema.attribute_of[variable.name]]
            filled, new = column.copy(), imputed[variable.name][~observed]
            filled[~observed] = as_dtype(variable, new, column.dtype).reshape(-1, *column.shape[1:])
            out[variable.name] = filled
        return out


def dealt(x: Tensor, n: int) -> NDArray[Any]:
    """(E, each, …) → the first n rows, taking one from each member in turn."""
    return x.transpose(0, 1).flatten(0, 1)[:n].cpu().numpy()


def _resampled(log_weight: Tensor, each: int, rng: torch.Generator) -> Tensor:
    """(E, S, B) → indices of draws, (E, each, B), picked in proportion to their weights."""
    weight = torch.softmax(log_weight.double(), dim=1).transpose(1, 2)  # (E, B, S)
    chosen = torch.multinomial(weight.flatten(0, 1), each, replacement=True, generator=rng)
    return chosen.unflatten(0, weight.shape[:2]).transpose(1, 2)


def _along_draws(x: Tensor, chosen: Tensor) -> Tensor:
    """x (E, S, B, …), chosen (E, each, B) → (E, each, B, …)"""
    index = chosen.view(*chosen.shape, *[1] * (x.dim() - 3)).expand(*chosen.shape, *x.shape[3:])
    return x.gather(1, index)


def per_variable(block: Block, x: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
    """A block's means or probabilities, apart for its variables; levels have three ways to be laid out."""
    if block.family not in DISCRETE:
        parts = [x[:, j] for j in range(len(block))]
    elif block.family is Family.BERNOULLI:
        parts = [np.stack([1 - x[:, j], x[:, j]], axis=1) for j in range(len(block))]
    elif block.family is Family.CUMULATIVE:
        parts = [x[:, j, :size] for j, size in enumerate(block.sizes)]
    else:
        parts = np.split(x, np.cumsum(block.sizes)[:-1], axis=1)
    return {variable.name: part for variable, part in zip(block.variables, parts, strict=True)}


def side_by_side(block: Block, shares: Mapping[str, NDArray[np.float64]]) -> NDArray[np.float64]:
    """What `per_variable` took apart, as it was."""
    parts = [shares[variable.name] for variable in block.variables]
    if block.family is Family.BERNOULLI:
        return np.stack([share[:, 1] for share in parts], axis=1)
    if block.family is Family.CUMULATIVE:
        return np.stack([np.pad(share, ((0, 0), (0, max(block.sizes) - share.shape[1]))) for share in parts], axis=1)
    return np.concatenate(parts, axis=1)
