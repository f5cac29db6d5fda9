"""What one fitted VSAE is for beyond filling holes: generated data and masks, embeddings, files."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from vsae.data.batch import Batch
from vsae.data.encoding import Columns, Encoding, Mask, as_dtype, numeric_blocks
from vsae.data.randomness import generator, private_rng
from vsae.data.remasking import remask
from vsae.data.schema import Schema, SchemaError
from vsae.generation.marginals import Steering
from vsae.generation.rows import Condition, RowGenerator
from vsae.imputation.imputer import CHUNK_NUMBERS, FittedModel
from vsae.imputation.parameter_uncertainty import FitError
from vsae.imputation.resampling import can_repaint, picture_attributes, repainted
from vsae.imputation.residual_quantiles import Shapes
from vsae.imputation.shrinkage import Trust
from vsae.model.config import VSAEConfig
from vsae.model.latent_model import Noise, found_device
from vsae.model.likelihoods import ScaledHead
from vsae.model.vsae import VSAE
from vsae.storage import checkpoint
from vsae.training.loop import History

_ENCODING_PARTS = ("loc", "scale", "low", "high", "decimals", "common")
_STEERING = "steering."
_CANDIDATES = 20_000  # latents drawn for conditional generation, at least
_HIDDEN_FOR_MARGINALS = 0.15  # of the observed cells,
_WAYS_TO_HIDE = 4  # each other ones
_TURNS = 16  # in which the attributes of a row are scored, one after the other
_MASK_DRAWS = 512
_FIT_ERROR, _PAINT = -4, -5  # their streams of random numbers
_REMASKS = 32  # ways to hide cells of a row when asking for its mask


@dataclass
class FittedVSAE(FittedModel[VSAE]):
    """A fitted model that also generates, embeds and is kept in files."""

    steering: Steering | None = None  # of generated rows; None: they are as they are decoded

    @cached_property
    def generating(self) -> VSAE:
        """The members that generated rows come from: those whose σ varies from cell to cell, if any.

        One σ a column is as wide where all is known as where nothing is: two columns that tell the same twice would
        come apart.
        """
        heads = [head for head in self.model.data_network.heads.values() if isinstance(head, ScaledHead)]
        sharp = heads[0].per_cell.flatten().nonzero().flatten().tolist() if heads else []
        if not sharp or len(sharp) == self.model.config.members:
            return self.model
        with private_rng(0, self.device):
            return self.model.take_members(sharp)

    @torch.no_grad()
    def _fit_error(self, n: int, seed: int) -> FitError | None:
        if not len(self.model.guess.moments) or self.model.importance_samples:
            return None
        return FitError(self.model, self._samples(n), generator(seed, _FIT_ERROR, self.device))

    def draw(self, columns: Columns, mask: Mask, n: int, *, seed: int = 0) -> list[dict[str, NDArray[Any]]]:
        tables = super().draw(columns, mask, n, seed=seed)
        if can_repaint(self.model):
            for i, table in enumerate(tables):
                self._repaint(table, mask, i % self.model.config.members, generator(seed, _PAINT - i, self.device))
        return tables

    def _repaint(self, table: dict[str, NDArray[Any]], mask: Mask, member: int, rng: torch.Generator) -> None:
        """In place, the pictures that `mask` hides; rows that hide the same ones go together."""
        pictures = picture_attributes(self.schema)
        for shown in np.unique(mask[:, pictures], axis=0):
            hidden = [i for i, there in zip(pictures, shown, strict=True) if not there]
            if not hidden:
                continue
            rows = np.flatnonzero((mask[:, pictures] == shown).all(axis=1))
            known = np.ones((len(rows), len(self.schema)), dtype=bool)
            known[:, hidden] = False
            parts = [
                {name: x.cpu().numpy() for name, x in repainted(self.model, batch, hidden, member, rng).items()}
                for _, batch in self._chunks({name: x[rows] for name, x in table.items()}, known, 1)
            ]
            painted = self.encoding.decode({name: np.concatenate([part[name] for part in parts]) for name in parts[0]})
            for variable in (v for i in hidden for v in self.schema.attributes[i].variables):
                table[variable.name][rows] = as_dtype(variable, painted[variable.name], table[variable.name].dtype)

    @torch.no_grad()
    def missing_probability(self, columns: Columns, mask: Mask, *, draws: int = 2) -> NDArray[np.float64]:
        """P(m_i = 0 | z) averaged over z given the row, (n, M).

        The row's own mask is part of what z is inferred from, so this leans towards it: it says how plausible the mask
        network finds each hole, not how often such a row would have one. The network learned to answer for rows of
        which some cells were hidden, so it is asked the same way, averaged over several ways to hide some.
        """
        self._needs_mask_model()
        parts, noise = [], self._shared_noise(self._even(draws))
        with private_rng(0, self.device):  # the same for every row
            everything = torch.ones(1, _REMASKS, len(self.schema), dtype=torch.bool, device=self.device)
            ways = remask(everything, *self.model.config.remask, self.model.hiding)
        for _, batch in self._chunks(columns, mask, noise.samples):
            seen = torch.zeros(batch.mask.shape[1:], dtype=torch.float64, device=self.device)
            for way in ways[0]:
                with private_rng(0, self.device):
                    decoded, _, _ = self.model.decode_draws(batch.with_mask(batch.mask & way), noise)
                seen += decoded.mask.mean.unflatten(1, (noise.samples, -1)).mean(dim=(0, 1)) / _REMASKS
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

    @torch.no_grad()
    def score_samples(self, columns: Columns, mask: Mask, *, draws: int = 8, seed: int = 0) -> NDArray[np.float64]:
        """log p(m) + log p(x_o | m) of each row, (n,), in natural units; the lower, the odder the row.

        By the chain rule, a few attributes at a time, in an order that `seed` decides: each is scored as if it were a
        hole, given those before it. Averages over z stand inside the logarithms, so in expectation this is a lower
        bound. Rows with more cells have less of it, as densities do: compare rows with like holes.
        """
        attributes = len(self.schema)
        turn = np.random.default_rng(seed).permutation(attributes) * min(attributes, _TURNS) // attributes
        parts, noise = [], self._shared_noise(self._even(draws))
        for _, batch in self._chunks(columns, mask, noise.samples):
            turns = torch.from_numpy(turn).to(self.device)
            with private_rng(seed, self.device):
                scores = [self._log_given(batch, turns < t, turns == t, noise) for t in range(turns.max() + 1)]
            parts.append((torch.stack(scores).sum(0) + self._log_mask(batch.mask[0], seed)).cpu().numpy())
        slopes = self.encoding.log_jacobian(columns, mask).values()  # 0 where not observed
        slope = sum(x.reshape(len(mask), -1).sum(axis=1) for x in slopes)
        return np.concatenate(parts) + slope

    def _log_given(self, batch: Batch, before: Tensor, now: Tensor, noise: Noise) -> Tensor:
        """log p(what is observed of `now` | what is observed of `before`), attributes (M,) bool both; (B,) float64."""
        data = self.model.draws(batch.with_mask(batch.mask & before), noise).data
        rows = batch.repeated(noise.samples)
        score = (self.model.log_likelihood(data, rows) * (rows.mask & now)).sum(-1)  # (E, S·B)
        score = score.double().unflatten(1, (noise.samples, -1)).flatten(0, 1)
        return torch.logsumexp(score, dim=0) - math.log(len(score))

    def _log_mask(self, mask: Tensor, seed: int) -> Tensor:
        """log p(m), from latents of the prior; (B, M) → (B,)."""
        if not self.model.config.mask_modelling:
            return torch.zeros(len(mask), device=self.device)
        generate = self.row_generator
        z = generate.model.prior.sample(_MASK_DRAWS, generator(seed, -3, self.device))
        logits = generate.mask_of(generate.model.aggregate(z)).logits.flatten(0, 1).double()  # (S, M)
        score = mask.double() @ logits.T - torch.nn.functional.softplus(logits).sum(-1)  # (B, S)
        return torch.logsumexp(score, dim=1) - math.log(len(logits))

    # --- generation

    def generate(
        self, n: int, *, seed: int = 0, given: Mapping[str, float] | None = None, missing: Sequence[str] = ()
    ) -> tuple[dict[str, NDArray[Any]], Mask]:
        """`n` complete rows, and for each a mask that the mechanism might have given it: z → m → x.

        Data alone, masks alone, and data with holes are parts of this one draw. `given` (variable → value in natural
        units) and `missing` (attributes that must be missing) condition it: see generation.py.
        """
        if n < 1:
            raise ValueError(f"asked for {n} rows; ask for at least 1")
        condition = self._condition(given or {}, missing)
        pieces = [self._generate(start, rows, seed, condition) for start, rows in self._ranges(n)]
        columns = {name: np.concatenate([x[name] for x, _ in pieces]) for name in pieces[0][0]}
        return columns, np.concatenate([mask for _, mask in pieces])

    def generate_masks(self, n: int, *, seed: int = 0) -> Mask:
        """`n` masks from the learned mechanism, (n, M), True = observed."""
        self._needs_mask_model()
        return self.generate(n, seed=seed)[1]

    # --- files

    def save(self, path: str | os.PathLike[str]) -> None:
        checkpoint.write(path, "model", *self.to_parts())

    @classmethod
    def load(cls, path: str | os.PathLike[str], device: torch.device | str = "cpu") -> FittedVSAE:
        device = found_device(device)
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
        for name, shapes in self.shapes.items():
            tensors |= {f"shapes.{name}.{part}": x for part, x in shapes.to_tensors().items()}
        arrays = {} if self.steering is None else self.steering.to_arrays()
        tensors |= {f"{_STEERING}{name}": torch.from_numpy(x) for name, x in arrays.items()}
        return tensors, content

    @classmethod
    def from_parts(
        cls, tensors: Mapping[str, Tensor], content: Mapping[str, Any], device: torch.device | str = "cpu"
    ) -> FittedVSAE:
        schema, config = Schema.from_json(content["schema"]), VSAEConfig.from_json(content["config"])
        with private_rng(0, torch.device("cpu")):
            model = VSAE(schema, config)
        model.load_state_dict(_under("model.", tensors))
        parts = {
            part: {b.name: tensors[f"encoding.{part}.{b.name}"].numpy() for b in numeric_blocks(schema)}
            for part in _ENCODING_PARTS
        }
        encoding = Encoding(schema, **parts, scaling=content["scaling"])
        trust = None if content["trust"] is None else Trust.from_json(content["trust"])
        arrays = {name: x.numpy() for name, x in _under(_STEERING, tensors).items()}
        steering = Steering.from_arrays(arrays) if arrays else None
        shaped = {name: _under(f"shapes.{name}.", tensors) for name in parts["loc"]}
        shapes = {name: Shapes.from_tensors(found) for name, found in shaped.items() if found}
        return cls(model.to(device).eval(), encoding, History(**content["history"]), trust, shapes, steering)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles and deep copies are made of the parts of a saved file: parameters may be views of one storage, which
        torch would write whole for each of them."""
        tensors, content = self.to_parts()
        arrays = {name: tensor.detach().cpu().contiguous().numpy() for name, tensor in tensors.items()}
        return type(self)._from_arrays, (arrays, content, self.device.type)

    @classmethod
    def _from_arrays(cls, arrays: Mapping[str, NDArray[Any]], content: Mapping[str, Any], device: str) -> FittedVSAE:
        """On the device it was on, or on the CPU where there is no such device."""
        tensors = {name: torch.from_numpy(array.copy()) for name, array in arrays.items()}
        return cls.from_parts(tensors, content, device if device != "cuda" or torch.cuda.is_available() else "cpu")

    def _generate(self, start: int, n: int, seed: int, condition: Condition) -> tuple[dict[str, NDArray[Any]], Mask]:
        """Rows of one chunk, dealt out to the members in turn."""
        config = self.generating.config
        per_candidate = config.members * len(self.schema) * config.latent_dim
        candidates = min(max(_CANDIDATES, 10 * n), CHUNK_NUMBERS * 2 // per_candidate)
        each = -(-n // config.members)
        columns, mask = self.row_generator(each, generator(seed, start, self.device), condition, candidates)
        order = np.arange(config.members * each).reshape(config.members, each).T.flatten()[:n]
        return {name: x[order] for name, x in columns.items()}, mask[order]

    @cached_property
    def row_generator(self) -> RowGenerator:
        return RowGenerator(self.generating, self.encoding, self.steering)

    def steer(self, columns: Columns, mask: Mask, seed: int) -> None:
        """Let generated rows have the marginals of these, which the model was fitted to: see marginals.py."""
        columns = {name: np.tile(x, (_WAYS_TO_HIDE, *[1] * (x.ndim - 1))) for name, x in columns.items()}
        mask = np.tile(mask, (_WAYS_TO_HIDE, 1))
        hidden = mask & (np.random.default_rng(seed).random(mask.shape) < _HIDDEN_FOR_MARGINALS)
        rng = generator(seed, -2, self.device)
        self.row_generator = self.row_generator.steered(columns, mask, hidden, rng, _WAYS_TO_HIDE)
        self.steering = self.row_generator.steering

    def _condition(self, given: Mapping[str, float], missing: Sequence[str]) -> Condition:
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
        return Condition(given, tuple(sorted(known)), tuple(sorted(gone)))

    def _needs_mask_model(self) -> None:
        if not self.model.config.mask_modelling:
            raise ValueError("this model was fitted with mask_modelling=False, so it knows nothing of masks")


def _under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): x for name, x in tensors.items() if name.startswith(prefix)}
