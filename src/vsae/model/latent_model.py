"""What training, validation and imputation ask of a model: the contract that VSAE and the baselines share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor, nn

from vsae.data.batch import Batch
from vsae.data.schema import Schema
from vsae.model.config import VSAEConfig
from vsae.model.features import NumberFeatures
from vsae.model.gaussian import GaussianImputation
from vsae.model.generative import DataDistribution, Heads
from vsae.model.images import ImageEncoders, ImageSettings
from vsae.model.inputs import InputSettings, JointInput, SeparateInput
from vsae.model.likelihoods import Distribution, ImageHead, ScaledHead
from vsae.model.priors import LatentPrior
from vsae.model.proposals import DiagonalNormal

ModelT = TypeVar("ModelT", bound="LatentModel")


def resolve_device(asked: torch.device | str | None) -> torch.device:
    """The one asked for, or else a GPU if there is one.

    >>> resolve_device("cpu")
    device(type='cpu')
    """
    if asked is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(asked)
    except RuntimeError:
        raise ValueError(f"there is no device {asked!r}; use 'cpu' or 'cuda'") from None
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"device {str(asked)!r}: torch finds no GPU here; use 'cpu', or a torch with CUDA")
    return device


class Noise(NamedTuple):
    """Where latent draws get their noise from: `samples` of standard normals for each member, and row by row or not."""

    members: int
    samples: int  # even, if mirrored
    rows: int  # 1: all rows get the same noise, so that a row's result depends on nothing but the row
    generator: torch.Generator | None = None
    mirrored: bool = False  # the second half is minus the first: odd errors cancel in an average

    def __call__(self, event: Sequence[int], device: torch.device) -> Tensor:
        """(E, samples, B or 1, *event)"""
        samples = self.samples // 2 if self.mirrored else self.samples
        shape = (self.members, samples, self.rows, *event)
        noise = torch.randn(shape, generator=self.generator, device=device)
        return torch.cat([noise, -noise], dim=1) if self.mirrored else noise


class Draws(NamedTuple):
    """Decoded latent draws of a batch, and how much each of them counts."""

    data: DataDistribution  # rows are draw-major, (E, samples·B, …)
    log_weight: Tensor | None = None  # (E, samples, B), importance weights; None: one draw, or all alike

    def average(self, x: Tensor, samples: int, members: Sequence[int] | None = None) -> Tensor:
        """The mean of (E, samples·B, …) over draws, as they are weighted, and over members, all or some: (B, …)."""
        x, weight = x.unflatten(1, (samples, -1)), self.log_weight
        if members is not None:
            x, weight = x[list(members)], None if weight is None else weight[list(members)]
        if weight is None:
            return x.mean(dim=(0, 1), dtype=torch.float64)
        weight = torch.softmax(weight.double(), dim=1)  # (E, S, B)
        return (x.double() * weight.view(*weight.shape, *[1] * (x.dim() - 3))).sum(1).mean(0)

    def mean_of(self, distribution: Distribution) -> Tensor:
        """The mean of a block over weighted draws, (E, B, …); of the only draw where there are no weights."""
        if self.log_weight is None:
            return distribution.mean
        mean = distribution.mean.unflatten(1, (self.log_weight.shape[1], -1))
        weight = torch.softmax(self.log_weight, dim=1)
        return (mean * weight.view(*weight.shape, *[1] * (mean.dim() - 3))).sum(1)


class LatentModel(nn.Module, ABC):
    """p(x | z) with a way to infer z from a batch whose `mask` says what may be read; E members at once."""

    owner: Tensor
    balance: Tensor
    shared_parts: tuple[str, ...] = ("features.",)  # what of the state all members have in common
    importance_samples = 0  # weighted draws that a point imputation is averaged from; 0: plain draws do

    def __init__(self, schema: Schema, config: VSAEConfig) -> None:
        super().__init__()
        self.schema, self.config = schema, config
        self.number_blocks = schema.number_blocks
        self.number_attributes = [i for block in self.number_blocks for i in block.attributes]
        self.features = NumberFeatures(len(self.number_attributes), config.features)
        self.image_settings = ImageSettings(config.members, config.image_net, config.channels, config.image_features)
        self.image_encoders = ImageEncoders(schema, self.image_settings)
        owner = torch.tensor([i for block in schema.blocks for i in block.attributes])
        self.register_buffer("owner", owner, persistent=False)  # attribute of each variable, block by block
        entries = torch.tensor([float(max(v.entries for v in attribute.variables)) for attribute in schema])
        weight = entries**-config.balance
        self.register_buffer("balance", weight, persistent=False)  # of each attribute's log-likelihood, (M,)
        self.block_attributes = {block.name: list(block.attributes) for block in schema.blocks}
        self.in_order = owner.tolist() == list(range(len(schema)))

    @property
    def device(self) -> torch.device:
        return self.owner.device

    def select_members(self: ModelT, index: Sequence[int]) -> ModelT:
        """A model of some of the members, with copies of their weights."""
        model = type(self)(self.schema, self.config.replace(members=len(index))).to(self.owner.device)
        state = {n: x if n.startswith(self.shared_parts) else x[list(index)] for n, x in self.state_dict().items()}
        model.load_state_dict(state)
        return model.train(self.training)

    def eval_in_training(self) -> None:
        """Eval mode, but where missing cells are filled with noise, each row has its own, as the training goes on."""
        self.eval()
        for module in self.modules():
            if isinstance(module, SeparateInput | JointInput):
                module.train()

    def by_attribute(self, blocks: Sequence[Tensor]) -> Tensor:
        """Numbers per variable, block by block, (…, variables) each → sums per attribute, (…, M)."""
        flat = torch.cat(list(blocks), dim=-1)
        if self.in_order:
            return flat
        return flat.new_zeros(*flat.shape[:-1], len(self.schema)).index_add(-1, self.owner, flat)

    def log_likelihood(self, data: DataDistribution, batch: Batch) -> Tensor:
        """log p(x_i | z) as if every cell were observed, (E, B, M); mask it before use."""
        return self.by_attribute([data[name].log_prob(batch.values[name]) for name in data])

    def encode_images(self, batch: Batch) -> Batch:
        """The batch with features of its images in their place, (E, B, n, features)."""
        encoded: Batch = self.image_encoders(batch)
        return encoded

    def make_heads(self) -> Heads:
        return Heads(self.schema, self.config.variance, self.config.pixel_variance, self.image_settings)

    def input_settings(self, recurring: int = 0) -> InputSettings:
        config, widths = self.config, self.image_encoders.widths
        return InputSettings(config.members, config.fill, self.features.width, widths, recurring)

    def fit_statistics(self, data: Batch) -> None:
        """What is taken from a data set (n, …) once, before training: features of numbers, mean images."""
        if self.number_blocks:
            usable = data.with_mask(data.usable)
            seen = usable.mask[:, self.number_attributes]
            self.features.fit(usable.numbers(self.number_blocks), seen, usable.weight)
        for head in (module for module in self.modules() if isinstance(module, ImageHead)):
            seen = data.usable[:, self.block_attributes[head.block]].float() * data.cell_weight()  # (n, images)
            total = torch.einsum("ni,nichw->ichw", seen, data.values[head.block])
            head.begin_at(total / seen.sum(0).clamp_min(1e-9).view(-1, 1, 1, 1))

    def update_statistics(self, data: Batch, share: float) -> None:
        """By more rows (n, …), a share of all that were seen: of that, what weights do not depend on."""

    def prepare(self, batch: Batch) -> Batch:
        """What of a training step does not depend on weights, done for several steps at once, (steps, E, B, …)."""
        return batch

    @property
    def has_constant_steps(self) -> bool:
        """Whether every training step does the same operations, so that one can be captured and replayed."""
        return False

    def number_features(self, batch: Batch) -> Tensor | None:
        """What networks read of the numbers, (…, numbers, features); None where there are none."""
        return self.features(batch.numbers(self.number_blocks)) if self.number_blocks else None

    @property
    @abstractmethod
    def numbers_per_row(self) -> int:
        """About how many floats a decoded row keeps alive, per member and draw."""

    def infer(self, batch: Batch) -> DiagonalNormal | None:
        """q(z | what the batch shows), (E, B, …); None for a model without latents."""
        return None

    @abstractmethod
    def reconstruct(self, batch: Batch) -> DataDistribution:
        """Every cell given what the batch shows; as decoded from the mean of z, where there is one."""

    def validation_draws(self, batch: Batch) -> Draws:
        """What held-out cells are scored by: as imputations come about, but cheaper."""
        return Draws(self.reconstruct(batch))

    def linear_imputation(self) -> GaussianImputation | None:
        """The Gaussian that is fitted beside the networks, if there is one."""
        return None

    def latent_prior(self) -> LatentPrior | None:
        """p(z) fitted to the latents of the training rows, if there is one."""
        return None

    def attribute_kl(self, batch: Batch) -> Tensor | None:
        """KL to the prior of what each attribute by itself says of its latent, (E, B, M); None where no attribute has
        a latent of its own."""
        return None

    @property
    def members_with_cell_scale(self) -> list[int]:
        """Those whose σ of a number varies from cell to cell; all, if none or no number does."""
        head = next((module for module in self.modules() if isinstance(module, ScaledHead)), None)
        found = [] if head is None else head.per_cell.flatten().nonzero().flatten().tolist()
        return found or list(range(self.config.members))

    @abstractmethod
    def draws(
        self, batch: Batch, noise: Noise, weighted: bool | None = None, only: Collection[str] | None = None
    ) -> Draws:
        """Decode draws of z given what the batch shows; `weighted`: with importance weights (None: as the model does).

        A model without latents gives a distribution of the cells for each draw of whatever noise it has.
        `only`: the blocks that are wanted; a model may decode more.

        The weights make up for the difference between the proposal and p(z | x_o), or p(z | x_o, m), for a z whose
        prior is N(0, I). A model that has none raises `ValueError`.
        """

    def log_weight(self, batch: Batch, data: DataDistribution, q: DiagonalNormal, z: Tensor) -> Tensor:
        """log p(x_o | z) + log p(z) - log q(z), (E, samples, B), of draws (E, samples, B, …), decoded."""
        samples = z.shape[1]
        repeated = batch.repeated(samples)
        log_x = (self.log_likelihood(data, repeated) * repeated.mask).sum(-1).unflatten(1, (samples, -1))
        ratio = q.prior_ratio(z)
        return log_x + (ratio.sum(-1) if ratio.dim() == 4 else ratio)
