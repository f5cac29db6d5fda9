"""What one fitted VSAE is for beyond filling holes: generated data and masks, embeddings, files."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
from vsae.imputation import CHUNK_NUMBERS, FittedModel, dealt
from vsae.likelihoods import Bernoulli, ScaledHead
from vsae.marginals import Marginals
from vsae.model import VSAE
from vsae.proposals import number_blocks
from vsae.randomness import generator, private_rng
from vsae.remasking import remask
from vsae.schema import Family, Schema, SchemaError
from vsae.training import History
from vsae.trust import Trust

_ENCODING_PARTS = ("loc", "scale", "low", "high")
_MARGINAL_PARTS = ("generated", "observed", "between", "decimals")
_CANDIDATES = 20_000  # latents drawn for conditional generation, at least
_FEW_EFFECTIVE = 100
_REMASKS = 32  # ways to hide cells of a row when asking for its mask


@dataclass
class FittedVSAE(FittedModel[VSAE]):
    """A fitted model that also generates, embeds and is kept in files."""

    marginals: Marginals | None = None  # of generated numbers; None: as they are decoded

    @cached_property
    def drawing(self) -> VSAE:  # type: ignore[override]
        """The members that draws and generated rows come from: those whose σ varies from cell to cell, if any.

        One σ a column is as wide where all is known as where nothing is: good to average means with, not to draw.
        """
        heads = [head for head in self.model.data_network.heads.values() if isinstance(head, ScaledHead)]
        sharp = heads[0].per_cell.flatten().nonzero().flatten().tolist() if heads else []
        if not sharp or len(sharp) == self.model.config.members:
            return self.model
        with private_rng(0, self.device):
            return self.model.take_members(sharp)

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
        return self._natural(values), mask

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
            "marginals": self.marginals is not None,
        }
        for part in _MARGINAL_PARTS if self.marginals is not None else ():
            blocks = getattr(self.marginals, part)
            tensors |= {f"marginals.{part}.{name}": torch.from_numpy(x) for name, x in blocks.items()}
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
        marginals = None
        if content["marginals"]:
            names = [b.name for b in number_blocks(schema)]
            marginals = Marginals(
                *({name: tensors[f"marginals.{part}.{name}"].numpy() for name in names} for part in _MARGINAL_PARTS)
            )
        return cls(model.to(device).eval(), encoding, History(**content["history"]), trust, marginals)

    @torch.no_grad()
    def _generate(self, n: int, rng: torch.Generator) -> tuple[dict[str, NDArray[Any]], Mask]:
        """Rows are dealt out to the members in turn."""
        each = -(-n // self.drawing.config.members)
        context = self.drawing.aggregate(self.drawing.prior.sample(each, rng))
        mask = self._mask_to_generate(context).sample(rng)
        data = self.drawing.data_network(context, mask)
        values = {name: dealt(x.sample(rng), n) for name, x in data.items()}
        return values, dealt(mask.bool(), n)

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
        candidates = max(n, min(max(_CANDIDATES, 10 * n), CHUNK_NUMBERS * 2 // per_candidate))
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
        rows = self._natural({name: dealt(x.sample(rng), n) for name, x in data.items()})
        for name, value in given.items():
            rows[name][:] = value
        return rows, (dealt(mask[member, chosen].bool(), n) | known) & ~np.array(gone)

    def _natural(self, values: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Generated values in standard units → columns."""
        rows = self.encoding.decode(values)
        return rows if self.marginals is None else rows | self.marginals(self.schema, values)

    def generated_values(self, n: int, seed: int = 0) -> dict[str, NDArray[Any]]:
        """Generated rows in standard units, before marginals."""
        return self._generate(n, generator(seed, -2, self.device))[0]

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

    def _needs_mask_model(self) -> None:
        if not self.model.config.mask_modelling:
            raise ValueError("this model was fitted with mask_modelling=False, so it knows nothing of masks")
