"""Everything one may choose about a model and its training, in one flat, immutable record.

`VSAEConfig()` is what a user gets; `VSAEConfig.paper()` is the paper read literally, for the record and the
ablations. Departures from the paper are marked `DIFF(paper)`.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Literal, get_args, get_type_hints

from vsae.storage.typed import typed

Proposal = Literal["selective", "collective", "attributive"]
Fill = Literal["zero", "noise"]  # what a network reads of a missing cell
FeatureSet = Literal["plain", "rich"]  # what a network reads of a number: see features.py
AggregationKind = Literal["concat", "pooled", "attention"]
ImageNet = Literal["conv", "flat"]
Variance = Literal["cell", "column", "mixed", "fixed"]  # mixed: cell and column in turn, over the members
DecoderMask = Literal["reconstructed", "given"]
RemaskRates = Literal["as_missing", "alike"]


@dataclass(frozen=True)
class NetShape:
    """The inside of a network: `depth` hidden layers, or residual blocks behind one, of `width` units.

    Depth 0, where a network may have it, is no inside at all: a linear map.
    """

    width: int
    depth: int
    residual: bool = False

    def __post_init__(self) -> None:
        typed(self)
        for name, most in (("width", 10**5), ("depth", 100)):
            if not 0 <= getattr(self, name) <= most:
                raise ValueError(f"{name} must lie between 0 and {most:g}, not {getattr(self, name)}")


#: Every number has bounds: those of sizes are what no machine has memory or time for.
_RANGES = (
    ("steps epochs batch_size evaluate_every patience", 1, 10**9),
    ("latent_dim members channels rounds", 1, 10**3),
    ("image_features", 1, 10**5),
    ("latent_draws", 1, 10**4),
    ("e_step_samples trees recurring", 0, 10**4),
    ("kl_visible kl_hidden mask_weight match e_step_weight e_step_warmup", 0, 10**9),
    ("start_scale", 1e-9, 10**3),
    ("learning_rate weight_decay clip", 0, 10**9),
    ("pixel_variance", 1e-6, 10**9),
    ("balance tolerance validation_share validation_remask refit", 0.0, 1.0),
    ("warmup", 0.0, 0.99),
)


@dataclass(frozen=True)
class VSAEConfig:
    """The switches; the comment beside each says what it does.

    Values that are not explained were chosen together: by 430 fits of random settings on 22 tables that no benchmark
    page shows, then by paired fits (docs/decisions/0007). docs/ablation.md has what each ingredient is worth.

    >>> VSAEConfig(latent_dim=4).latent_dim, VSAEConfig.paper().kl_hidden
    (4, 1.0)
    >>> VSAEConfig(fill="ones")
    Traceback (most recent call last):
    ValueError: fill must be one of 'zero', 'noise', not 'ones'
    """

    # --- the model
    latent_dim: int = 4  # L, per attribute
    attributive: NetShape = NetShape(width=0, depth=0)  # rich features make a linear map bend
    collective: NetShape = NetShape(width=96, depth=1, residual=True)
    aggregation: AggregationKind = "concat"  # F(z); the others are for attributes by the thousand
    mask_net: NetShape = NetShape(width=48, depth=1)
    data_net: NetShape = NetShape(width=96, depth=1, residual=True)
    members: int = 4  # E: an ensemble trains as one batched computation
    start_scale: float = 0.05  # DIFF(paper): σ of the proposals before training; from 1, it takes long to tell z apart
    proposal: Proposal = "selective"  # ablation: one of the two proposals for every attribute
    fill: Fill = "zero"  # what the networks read of a missing cell
    gaussian: bool = True  # DIFF(paper): the collective proposal corrects a Gaussian imputation; see gaussian.py
    features: FeatureSet = "rich"  # DIFF(paper): what the proposals read of a number; see features.py
    recurring: int = 1024  # values, at most, that rows share and that have an embedding; see recurring.py
    image_net: ImageNet = "conv"  # DIFF(paper): "flat" reads and decodes pixels by MLPs; see images.py
    channels: int = 16  # of an image network's first layer
    image_features: int = 256  # that a convolutional encoder gives
    pixel_variance: float | None = 0.1  # of Gaussian and discretised pixels; None: learned
    variance: Variance = "mixed"  # DIFF(paper): σ is learned; the paper's squared error fixes it
    scaling: Literal["standard", "minmax"] = "standard"
    mask_modelling: bool = True  # ablation: no p(m | z); the decoders get the given mask
    decoder_mask: DecoderMask = "reconstructed"  # which mask conditions p(x | m, z) in training
    imputation_mask: DecoderMask = "reconstructed"  # … and when imputing (the paper: the given one)

    # --- the objective
    balance: float = 0.5  # DIFF(paper): log p(x_i) of d entries counts d^-balance in the loss; see objective.py
    kl_visible: float = 0.01  # DIFF(paper): weight 1 collapses the collective proposal
    kl_hidden: float = 0.003
    remask: tuple[float, float] = (0.2, 0.4)  # DIFF(paper): hide this share of what is observed, and score it
    remask_rates: RemaskRates = "as_missing"  # … more of what is often missing, or "alike"; see remasking.py
    mask_weight: float = 0.3  # DIFF(paper): of log p(m | z), whose bits would have z tell of the mask, not of the row
    match: float = 0.1  # weight of KL(attributive ‖ collective) where an attribute is known but hidden
    e_step_samples: int = 0  # DIFF(paper): 100; targets from an untrained decoder teach little
    e_step_latents: Literal["prior", "collective"] = "prior"
    e_step_weight: float = 1.0
    e_step_warmup: int = 20  # epochs before the first E step

    # --- the training
    steps: int | None = 500  # at most; None: `epochs` decides
    epochs: int | None = None  # at most
    rounds: int = 1  # of training, at most; another one, twice as long, where the last still lowered the error
    batch_size: int = 128
    learning_rate: float = 8e-3
    weight_decay: float = 0.1
    schedule: Literal["cosine", "constant"] = "cosine"
    warmup: float = 0.1  # share of the steps, cosine only
    clip: float | None = 5.0  # of the gradient's norm, per member
    validation: Literal["cells", "rows"] = "cells"  # what is held out for early stopping
    validation_share: float = 0.1  # of the observed cells, or of the rows
    validation_remask: float = 0.3  # share of held-out rows' observed cells that is hidden and scored
    evaluate_every: int | None = 25  # steps; None: every epoch
    patience: int = 8  # evaluations without a better one before training stops
    tolerance: float = 0.01  # how much worse than the best score counts as no worse
    refit: float = 0.4  # then train for this share of the steps more, on all cells

    # --- its use
    trees: int = 50  # DIFF(paper): for each variable, beside the networks; see forest.py, blend.py
    shrinkage: bool = True  # DIFF(paper): estimates shrink towards means and modes as held-out cells say
    prior: Literal["fitted", "standard"] = "fitted"  # DIFF(paper): p(z) to generate from; see priors.py
    prior_covariance: Literal["common", "own"] = "common"  # of its components; own ones take (M·L)² floats each
    prior_rows: Literal["all", "complete"] = "all"  # whose latents it is fitted to; what is hidden has blurred ones
    latent_draws: int = 4  # averaged into a point imputation; ten err as much

    def __post_init__(self) -> None:
        for name, hint in get_type_hints(type(self)).items():
            choices, value = get_args(hint), getattr(self, name)
            if choices and all(isinstance(choice, str) for choice in choices) and value not in choices:
                known = ", ".join(repr(choice) for choice in choices)
                raise ValueError(f"{name} must be one of {known}, not {value!r}")
        object.__setattr__(self, "remask", tuple(self.remask))
        typed(self)
        for names, low, high in _RANGES:
            for name in names.split():
                value = getattr(self, name)
                if value is not None and not low <= value <= high:
                    raise ValueError(f"{name} must lie between {low:g} and {high:g}, not {value}")
        if self.steps is None and self.epochs is None:
            raise ValueError("give steps or epochs: without either, training would not end")
        least, most = self.remask
        if not 0.0 <= least <= most < 1.0:
            raise ValueError(f"remask must be a range inside [0, 1), not {self.remask}")

    @classmethod
    def paper(cls, **changes: Any) -> VSAEConfig:
        """The paper's recipe; where it is silent (it has no appendix), a plain reading of it."""
        hidden = NetShape(width=64, depth=3)
        settings: dict[str, Any] = {
            "latent_dim": 20,
            "attributive": hidden,
            "collective": hidden,
            "mask_net": hidden,
            "data_net": NetShape(width=128, depth=3),
            "fill": "noise",
            "features": "plain",
            "recurring": 0,
            "gaussian": False,
            "members": 1,
            "start_scale": 1.0,
            "image_net": "flat",
            "pixel_variance": 0.5,
            "balance": 0.0,
            "variance": "fixed",
            "scaling": "minmax",
            "imputation_mask": "given",
            "kl_visible": 1.0,
            "kl_hidden": 1.0,
            "remask": (0.0, 0.0),
            "remask_rates": "alike",
            "mask_weight": 1.0,
            "match": 0.0,
            "e_step_samples": 100,
            "steps": None,
            "epochs": 1000,
            "batch_size": 64,
            "learning_rate": 1e-3,
            "weight_decay": 0.0,
            "schedule": "constant",
            "clip": None,
            "validation": "rows",
            "validation_share": 0.2,
            "evaluate_every": None,
            "patience": 50,
            "tolerance": 0.0,
            "refit": 0.0,
            "trees": 0,
            "shrinkage": False,
            "prior": "standard",
            "latent_draws": 20,
        }
        return cls(**{**settings, **changes})

    def replace(self, **changes: Any) -> VSAEConfig:
        return dataclasses.replace(self, **changes)

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> VSAEConfig:
        nets = {name: NetShape(**data[name]) for name in ("attributive", "collective", "mask_net", "data_net")}
        older = {"recurring": 0}  # files that say nothing of it
        return cls(**{**older, **data, **nets})
