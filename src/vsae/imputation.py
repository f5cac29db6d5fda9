"""What one fitted model is for: point imputations, draws, generated data and masks, embeddings.

Rows are worked through in chunks whose size follows from the model's, so memory stays bounded for any number of rows.
Point imputations use the same latent noise for every row: a row's result depends on nothing but the row (except where
the `paper` preset fills holes with noise).
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from vsae import checkpoint
from vsae.batch import Batch
from vsae.config import VSAEConfig
from vsae.encoding import Columns, Encoding, Mask, numeric_blocks
from vsae.generative import DataDistribution
from vsae.likelihoods import Bernoulli, Gaussian, ScaledHead, Vector
from vsae.model import VSAE, Decoded
from vsae.randomness import generator, private_rng
from vsae.remasking import remask
from vsae.schema import DISCRETE, Block, Family, Schema, SchemaError
from vsae.training import History
from vsae.trust import Trust

_ENCODING_PARTS = ("loc", "scale", "low", "high")
_CANDIDATES = 20_000  # latents drawn for conditional generation, at least
_FEW_EFFECTIVE = 100
_REMASKS = 32  # ways to hide cells of a row when asking for its mask
_CHUNK_NUMBERS = 2**26  # floats alive at once in one decoded chunk: about 256 MB


@dataclass
class FittedVSAE:
    """A trained model with the encoding it was trained on. All methods take and give natural units.

    `columns` maps variable names to arrays (level codes for discrete variables); `mask` (n, M) is over attributes,
    True = observed. What is not observed is never read.
    """

    model: VSAE
    encoding: Encoding
    history: History = field(default_factory=History)
    trust: Trust | None = None

    @property
    def schema(self) -> Schema:
        return self.encoding.schema

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device

    @cached_property
    def drawing(self) -> VSAE:
        """The members that draws and generated rows come from: those whose σ varies from cell to cell, if any.

        One σ a column is as wide where all is known as where nothing is: good to average means with, not to draw.
        """
        heads = [head for head in self.model.data_network.heads.values() if isinstance(head, ScaledHead)]
        sharp = heads[0].per_cell.flatten().nonzero().flatten().tolist() if heads else []
        if not sharp or len(sharp) == self.model.config.members:
            return self.model
        with private_rng(0, self.device):
            return self.model.take_members(sharp)

    # --- imputation

    def impute(self, columns: Columns, mask: Mask, *, draws: int | None = None) -> dict[str, NDArray[Any]]:
        """Every hole filled with its mean (numbers) or mode (levels) over latent draws and members."""
        return self._fill(columns, mask, self._point(self.estimates(columns, mask, draws=draws)))

    def estimates(self, columns: Columns, mask: Mask, *, draws: int | None = None) -> dict[str, NDArray[Any]]:
        """Per variable: means of numbers (n,) and vectors (n, d), probabilities of levels (n, levels)."""
        parts = [self._estimate(batch, draws) for _, batch in self._chunks(columns, mask, draws)]
        blocks = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        out = {v.name: x for b in self.schema.blocks for v, x in zip(b.variables, _of(b, blocks[b.name]), strict=True)}
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
        pieces: list[dict[str, NDArray[Any]]] = []
        for start, batch in self._chunks(columns, mask, n):
            pieces.append(self._draws(batch, n, generator(seed, start, self.device)))
        stacked = {name: np.concatenate([piece[name] for piece in pieces], axis=1) for name in pieces[0]}
        return [
            self._fill(columns, mask, self.encoding.decode({name: x[i] for name, x in stacked.items()}))
            for i in range(n)
        ]

    def missing_probability(self, columns: Columns, mask: Mask, *, draws: int = 2) -> NDArray[np.float64]:
        """P(m_i = 0 | z) averaged over z given the row, (n, M).

        The row's own mask is part of what z is inferred from, so this leans towards it: it says how plausible the mask
        network finds each hole, not how often such a row would have one. The network learned to answer for rows of
        which some cells were hidden, so it is asked the same way, averaged over several ways to hide some.
        """
        self._needs_mask_model()
        parts = []
        with private_rng(0, self.device):  # the same for every row
            everything = torch.ones(1, _REMASKS, len(self.schema), dtype=torch.bool, device=self.device)
            ways = remask(everything, *self.model.config.remask, self.model.hiding)
        for _, batch in self._chunks(columns, mask, draws):
            seen = torch.zeros(batch.mask.shape[1:], dtype=torch.float64, device=self.device)
            for way in ways[0]:
                decoded, samples = self._decode(batch.with_mask(batch.mask & way), draws)
                seen += decoded.mask.mean.unflatten(1, (samples, -1)).mean(dim=(0, 1)) / _REMASKS
            parts.append(1.0 - seen.cpu().numpy())
        return np.concatenate(parts)

    @torch.no_grad()
    def embed(self, columns: Columns, mask: Mask) -> NDArray[np.float32]:
        """Latent means of the selective proposal, (n, M, L); those of the first member, for an ensemble."""
        parts = []
        for _, batch in self._chunks(columns, mask, 1):
            with private_rng(0, self.device):
                parts.append(self.model.propose(batch).selective.loc[0].cpu().numpy())
        return np.concatenate(parts)

    def quantiles(
        self, columns: Columns, mask: Mask, levels: Sequence[float], *, draws: int = 200, seed: int = 0
    ) -> list[dict[str, NDArray[Any]]]:
        """For each level a table whose holes hold that quantile of their draws; discrete holes hold their mode."""
        pieces: list[dict[str, NDArray[Any]]] = []
        for start, batch in self._chunks(columns, mask, draws):
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

    # --- generation

    def generate(
        self, n: int, *, seed: int = 0, given: Mapping[str, float] | None = None, missing: Sequence[str] = ()
    ) -> tuple[dict[str, NDArray[Any]], Mask]:
        """`n` complete rows, and for each a mask that the mechanism might have given it: z → m → x.

        Data alone, masks alone, and data with holes are parts of this one draw. `given` (variable → value in natural
        units) and `missing` (attributes that must be missing) condition it: see `_generate_given`.
        """
        if n < 1:
            raise ValueError(f"asked for {n} rows; ask for at least 1")
        if given or missing:
            return self._generate_given(n, seed, given or {}, missing)
        pieces = [self._generate(rows, generator(seed, start, self.device)) for start, rows in self._ranges(n)]
        mask = np.concatenate([mask for _, mask in pieces])
        values = {name: np.concatenate([x[name] for x, _ in pieces]) for name in pieces[0][0]}
        return self.encoding.decode(values), mask

    def generate_masks(self, n: int, *, seed: int = 0) -> Mask:
        """`n` masks from the learned mechanism, (n, M), True = observed."""
        self._needs_mask_model()
        return self.generate(n, seed=seed)[1]

    # --- files

    def save(self, path: str | os.PathLike[str]) -> None:
        checkpoint.write(path, "model", *self.to_parts())

    @classmethod
    def load(cls, path: str | os.PathLike[str], device: torch.device | str = "cpu") -> FittedVSAE:
        with checkpoint.parts_of(path):
            return cls.from_parts(*checkpoint.read(path, "model"), device)

    def to_parts(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Tensors and JSON that `from_parts` makes a model of again."""
        tensors = {f"model.{name}": value for name, value in self.model.state_dict().items()}
        for part in _ENCODING_PARTS:
            blocks = getattr(self.encoding, part)
            tensors |= {f"encoding.{part}.{name}": torch.from_numpy(x) for name, x in blocks.items()}
        content = {
            "schema": self.schema.to_json(),
            "config": self.model.config.to_json(),
            "scaling": self.encoding.scaling,
            "history": self.history.__dict__,
            "trust": None if self.trust is None else self.trust.to_json(),
        }
        return tensors, content

    @classmethod
    def from_parts(
        cls, tensors: Mapping[str, Tensor], content: Mapping[str, Any], device: torch.device | str = "cpu"
    ) -> FittedVSAE:
        schema, config = Schema.from_json(content["schema"]), VSAEConfig.from_json(content["config"])
        with private_rng(0, torch.device("cpu")):
            model = VSAE(schema, config)
        prefix = "model."
        weights = {name.removeprefix(prefix): x for name, x in tensors.items() if name.startswith(prefix)}
        model.load_state_dict(weights)
        parts = {
            part: {b.name: tensors[f"encoding.{part}.{b.name}"].numpy() for b in numeric_blocks(schema)}
            for part in _ENCODING_PARTS
        }
        encoding = Encoding(schema, **parts, scaling=content["scaling"])
        trust = None if content["trust"] is None else Trust.from_json(content["trust"])
        return cls(model.to(device).eval(), encoding, History(**content["history"]), trust)

    # --- the work on one chunk

    def _ranges(self, rows: int, draws: int = 1) -> Iterator[tuple[int, int]]:
        """(start, length) of chunks of bounded memory."""
        config = self.model.config
        widths = config.latent_dim * len(self.schema) * 3 + sum(self.model.data_network.splits) * 2
        per_row = config.members * draws * (widths + config.data_net.width * 4)
        size = max(1, _CHUNK_NUMBERS // per_row)
        for start in range(0, rows, size):
            yield start, min(size, rows - start)

    def _chunks(self, columns: Columns, mask: Mask, draws: int | None) -> Iterator[tuple[int, Batch]]:
        data = self.encoding.encode(columns, mask)
        for start, rows in self._ranges(data.rows, self._even(draws)):
            yield start, data.take(slice(start, start + rows)).to(self.device).for_members()

    def _even(self, draws: int | None) -> int:
        """Latent draws come in mirrored pairs."""
        draws = self.model.config.latent_draws if draws is None else draws
        return max(2, draws + draws % 2)

    @torch.no_grad()
    def _decode(self, batch: Batch, draws: int | None) -> tuple[Decoded, int]:
        """Decode mirrored latent draws, the same noise for every row; rows of the result are draw-major."""
        samples = self._even(draws)
        with private_rng(0, self.device):
            q = self.model.propose(batch).selective
            noise = torch.randn(q.loc.shape[0], samples // 2, 1, *q.loc.shape[2:], device=self.device)
        noise = torch.cat([noise, -noise], dim=1)  # antithetic: odd errors cancel
        z = q.loc[:, None] + q.log_scale.exp()[:, None] * noise  # (E, S, B, M, L)
        return self.model.decode(z.flatten(1, 2), self._decoder_mask(batch.mask, samples)), samples

    def _decoder_mask(self, mask: Tensor, samples: int) -> Tensor | None:
        """m when imputing: the given mask, or None for the reconstructed one."""
        config = self.model.config
        if config.mask_modelling and config.imputation_mask == "reconstructed":
            return None
        return mask[:, None].expand(-1, samples, -1, -1).flatten(1, 2)

    def _estimate(self, batch: Batch, draws: int | None) -> dict[str, NDArray[Any]]:
        """Averaged over draws and members: natural-unit means of numbers, probabilities of levels."""
        decoded, samples = self._decode(batch, draws)
        return {name: self._average(name, decoded.data, samples) for name in decoded.data}

    def _average(self, name: str, data: DataDistribution, samples: int) -> NDArray[Any]:
        distribution = data[name]
        if not isinstance(distribution, Gaussian | Vector):
            return distribution.mean.unflatten(1, (samples, -1)).mean(dim=(0, 1)).double().cpu().numpy()
        mean, scale = (x.unflatten(1, (samples, -1)).flatten(0, 1) for x in (distribution.mean, distribution.scale))
        if self.encoding.affine(name):  # affine: the mean may be taken first
            return self.encoding.expected(name, mean.double().mean(0).cpu().numpy(), np.zeros(()))
        return self.encoding.expected(name, mean.cpu().numpy(), scale.cpu().numpy()).mean(axis=0)

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
    def _draws(self, batch: Batch, n: int, rng: torch.Generator) -> dict[str, NDArray[Any]]:
        """(n, B, …) per block in standard units; draw i is member i mod E's."""
        members = self.drawing.config.members
        each = -(-n // members)
        with private_rng(int(torch.randint(2**31, (1,), generator=rng, device=self.device)), self.device):
            q = self.drawing.propose(batch).selective
        shape = (q.loc.shape[0], each, *q.loc.shape[1:])
        noise = torch.randn(shape, generator=rng, device=self.device)
        z = q.loc[:, None] + q.log_scale.exp()[:, None] * noise
        data = self.drawing.decode(z.flatten(1, 2), self._decoder_mask(batch.mask, each)).data
        draws = {name: x.sample(rng).unflatten(1, (each, -1)) for name, x in data.items()}  # (E, each, B, …)
        return {name: _dealt(x, n) for name, x in draws.items()}

    @torch.no_grad()
    def _generate(self, n: int, rng: torch.Generator) -> tuple[dict[str, NDArray[Any]], Mask]:
        """Rows are dealt out to the members in turn."""
        each = -(-n // self.drawing.config.members)
        context = self.drawing.aggregate(self.drawing.prior.sample(each, rng))
        mask = self._mask_to_generate(context).sample(rng)
        data = self.drawing.data_network(context, mask)
        values = {name: _dealt(x.sample(rng), n) for name, x in data.items()}
        return values, _dealt(mask.bool(), n)

    @torch.no_grad()
    def _generate_given(
        self, n: int, seed: int, given: Mapping[str, float], missing: Sequence[str]
    ) -> tuple[dict[str, NDArray[Any]], Mask]:
        """Conditional generation by importance resampling.

        Many (z, m) are drawn, weighted with p(given | m, z) · p(missing | z), and resampled in proportion; rows are
        generated from those that remain, and the given cells set. A warning says when few of them carry the weight.
        """
        config, rng = self.drawing.config, generator(seed, -1, self.device)
        known, gone = ([i in at for i in range(len(self.schema))] for at in self._conditions(given, missing))
        target = self._given_row(given)
        named = [
            torch.tensor([v.name in given for v in block.variables], device=self.device) for block in self.schema.blocks
        ]
        per_candidate = config.members * len(self.schema) * config.latent_dim
        candidates = max(n, min(max(_CANDIDATES, 10 * n), _CHUNK_NUMBERS * 2 // per_candidate))
        parts = []
        for _, length in self._ranges(candidates):
            z = self.drawing.prior.sample(length, rng)
            parts.append((z, *self._weigh(z, target, named, torch.tensor(gone, device=self.device), rng)))
        z, mask, log_weight = (torch.cat(part, dim=1) for part in zip(*parts, strict=True))  # (E, candidates, …)
        weight = torch.softmax(log_weight.double(), dim=1)
        effective = float((1 / (weight**2).sum(1)).sum())
        if effective < min(n, _FEW_EFFECTIVE):
            carried = f"{effective:.0f} of {candidates} candidate rows carry it"
            warnings.warn(f"the condition is rare: {carried}, so generated rows will be alike; loosen it", stacklevel=4)
        each = -(-n // config.members)
        chosen = torch.multinomial(weight, each, replacement=True, generator=rng)  # (E, each)
        member = torch.arange(config.members, device=self.device)[:, None]
        data = self.drawing.data_network(self.drawing.aggregate(z[member, chosen]), mask[member, chosen])
        rows = self.encoding.decode({name: _dealt(x.sample(rng), n) for name, x in data.items()})
        for name, value in given.items():
            rows[name][:] = value
        return rows, (_dealt(mask[member, chosen].bool(), n) | known) & ~np.array(gone)

    def _conditions(self, given: Mapping[str, float], missing: Sequence[str]) -> tuple[set[int], set[int]]:
        """Indices of the attributes that are given, and of those that must be missing."""
        known_names = {"variable": list(self.schema.attribute_of), "attribute": self.schema.names}
        for what, names in (("variable", list(given)), ("attribute", list(missing))):
            for name in names:
                if name not in known_names[what]:
                    raise SchemaError(
                        f"there is no {what} {name!r} in this model; it has {', '.join(known_names[what])}"
                    )
        if missing:
            self._needs_mask_model()
        known, gone = {self.schema.attribute_of[n] for n in given}, {self.schema.names.index(n) for n in missing}
        for i in known & gone:
            raise SchemaError(f"{self.schema.names[i]!r} can not be both given and missing")
        return known, gone

    def _given_row(self, given: Mapping[str, float]) -> Batch:
        """The condition as a batch of one row; the variables that are not given hold any value that is allowed."""
        middle = {
            b.name: np.zeros((1, len(b), b.width) if b.family is Family.VECTOR else (1, len(b)), dtype=int)
            for b in self.schema.blocks
        }
        row = self.encoding.decode(middle) | {name: np.asarray([value]) for name, value in given.items()}
        return self.encoding.encode(row, np.ones((1, len(self.schema)), dtype=bool)).to(self.device).for_members()

    def _weigh(
        self, z: Tensor, target: Batch, named: list[Tensor], gone: Tensor, rng: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        """A mask for each z, and the log weight of both; (E, B, M), (E, B)."""
        context = self.drawing.aggregate(z)
        m = self._mask_to_generate(context)
        mask = m.sample(rng) * ~gone
        data = self.drawing.data_network(context, mask)
        densities = [(x.log_prob(target.values[name]), at) for (name, x), at in zip(data.items(), named, strict=True)]
        log_given = torch.cat([log_p * at for log_p, at in densities], dim=-1).sum(-1)
        log_gone = torch.where(gone, m.log_prob(torch.zeros_like(mask)), 0.0).sum(-1)
        return mask, log_given + log_gone

    def _mask_to_generate(self, context: Tensor) -> Bernoulli:
        """p(m | z) for latents of the prior; certain to be observed where there is no mask model."""
        m = self.drawing.mask_network(context)
        shift = self.drawing.prior.mask_shift if self.model.config.mask_modelling else torch.inf
        return Bernoulli(m.logits + shift)

    def _fill(self, columns: Columns, mask: Mask, imputed: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Observed cells as they came, bit for bit; the others imputed, in the column's own dtype."""
        out: dict[str, NDArray[Any]] = {}
        for variable in self.schema.variables:
            column = np.asarray(columns[variable.name])
            observed = mask[:, self.schema.attribute_of[variable.name]]
            filled, new = column.copy(), imputed[variable.name][~observed]
            filled[~observed] = np.rint(new) if column.dtype.kind in "iu" else new
            out[variable.name] = filled
        return out

    def _needs_mask_model(self) -> None:
        if not self.model.config.mask_modelling:
            raise ValueError("this model was fitted with mask_modelling=False, so it knows nothing of masks")


def _dealt(x: Tensor, n: int) -> NDArray[Any]:
    """(E, each, …) → the first n rows, taking one from each member in turn."""
    return x.transpose(0, 1).flatten(0, 1)[:n].cpu().numpy()


def _of(block: Block, share: NDArray[np.float64]) -> list[NDArray[np.float64]]:
    """A block's estimates per variable; levels have three ways to be laid out."""
    if block.family not in DISCRETE:
        return [share[:, j] for j in range(len(block))]
    if block.family is Family.BERNOULLI:
        return [np.stack([1 - share[:, j], share[:, j]], axis=1) for j in range(len(block))]
    if block.family is Family.CUMULATIVE:
        return [share[:, j, :size] for j, size in enumerate(block.sizes)]
    return np.split(share, np.cumsum(block.sizes)[:-1], axis=1)
