"""One step: the loss of a batch, its gradient, clipped for each member, and AdamW; of two that play a game, in turn.

Nothing in it waits for the device, so that on a GPU it is captured once as a CUDA graph and then replayed: a step is
hundreds of small operations, and Python takes longer to ask for them than a GPU to do them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from vsae.data.batch import Batch
from vsae.model.config import VSAEConfig
from vsae.model.latent_model import LatentModel
from vsae.training.objective import Elbo
from vsae.training.optimiser import AdamW

Learn = Callable[[Any, Batch, int], tuple[Elbo, Tensor]]  # model, batch, epoch → terms (E, B, M), loss

_WARM_UP = 3  # steps before the capture: libraries set themselves up in their first calls


class Adversarial(ABC):
    """A model one part of which plays against the others: in each step it moves first, by a loss of its own.

    What the others learn is what `train` is told, as of any model; they read the opponent, but do not move it.
    """

    opponent_moves = 1  # in a step

    @property
    @abstractmethod
    def opponent(self) -> nn.Module:
        """The part of the model."""

    @abstractmethod
    def opponent_loss(self, batch: Batch) -> Tensor:
        """The mean over rows, the sum over members."""


class Step:
    """Moves the weights of `model`, which are the rows of one matrix meanwhile; `release` ends that."""

    def __init__(self, model: LatentModel, learn: Learn, config: VSAEConfig) -> None:
        self.model, self.learn, self.clip = model, learn, config.clip
        theirs = list(model.opponent.parameters()) if isinstance(model, Adversarial) else []
        apart = {id(parameter) for parameter in theirs}
        own = [parameter for parameter in model.parameters() if id(parameter) not in apart]
        self.optimiser = AdamW(own, config.weight_decay, config.members)
        self.opponent = AdamW(theirs, config.weight_decay, config.members) if theirs else None
        device = self.optimiser.weights.device
        self.rate = torch.zeros((), device=device)
        self.sums = torch.zeros(len(Elbo._fields), config.members, device=device)  # of the terms, until they are read
        self.broken = torch.zeros((), device=device)  # 1 once a loss or gradient is not finite: no weight moves then
        self.warm = 0
        self.graph: torch.cuda.CUDAGraph | None = None

    def __call__(self, batch: Batch, epoch: int, rate: float) -> None:
        self.rate.fill_(rate)
        if self.rate.is_cuda and self.model.has_constant_steps:
            self._replay(batch, epoch)
        else:
            self._take(batch, epoch)

    def _take(self, batch: Batch, epoch: int) -> None:
        if self.opponent is not None and isinstance(self.model, Adversarial):
            for _ in range(self.model.opponent_moves):
                self._move(self.opponent, self.model.opponent_loss(batch))
        terms, loss = self.learn(self.model, batch, epoch)
        self._move(self.optimiser, loss)
        self.sums += torch.stack(terms).detach().sum(-1).mean(-1)

    def _move(self, optimiser: AdamW, loss: Tensor) -> None:
        gradient = optimiser.gradient(loss)
        with torch.no_grad():
            norm = clip_members(gradient, self.clip)
            self.broken.logical_or_(~torch.isfinite(norm.sum() + loss))
            optimiser.step(gradient, self.rate, self.broken)

    def _replay(self, batch: Batch, epoch: int) -> None:
        """All batches have one shape, and are copied to where the graph reads."""
        if self.warm < _WARM_UP:
            self.warm += 1
            return self._take(batch, epoch)
        if self.graph is None:
            self.batch, self.graph = batch.clone(), torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):  # records the step, but does not take it
                self._take(self.batch, epoch)
        self.batch.copy_(batch)
        self.graph.replay()

    def mean_terms(self, steps: int) -> Elbo:
        """The four terms, (E,) each, averaged over as many steps; begins anew."""
        terms = Elbo(*(self.sums / steps))
        self.sums = self.sums.zero_()
        return terms

    def state(self) -> dict[str, Tensor]:
        """Of the optimisers: what a checkpoint must hold beside the weights."""
        theirs = {} if self.opponent is None else self.opponent.state()
        return self.optimiser.state() | {f"opponent.{name}": value for name, value in theirs.items()}

    def load(self, state: dict[str, Tensor]) -> None:
        for name, value in self.state().items():
            value.copy_(state[name])

    def release(self) -> None:
        self.graph = None
        self.optimiser.release()
        if self.opponent is not None:
            self.opponent.release()


def clip_members(gradient: Tensor, limit: float | None) -> Tensor:
    """Scale each member's gradient, a row of (E, P), to a norm of at most `limit`; gives back the norms, (E,).

    >>> gradient = torch.tensor([[3.0, 4.0], [0.3, 0.4]])
    >>> clip_members(gradient, 1.0), gradient
    (tensor([5.0000, 0.5000]), tensor([[0.6000, 0.8000],
            [0.3000, 0.4000]]))
    """
    norm = torch.linalg.vector_norm(gradient, dim=1)
    if limit is not None and (norm.is_cuda or bool((norm > limit).any())):  # a GPU would have to be waited for
        gradient.mul_((limit / norm).clamp_max(1.0)[:, None])
    return norm
