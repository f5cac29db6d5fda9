"""One step: the loss of a batch, its gradient, clipped for each member, and AdamW.

Nothing in it waits for the device, so that on a GPU it is captured once as a CUDA graph and then replayed: a step is
hundreds of small operations, and Python takes longer to ask for them than a GPU to do them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from vsae.data.batch import Batch
from vsae.model.config import VSAEConfig
from vsae.model.latent_model import LatentModel
from vsae.training.objective import Elbo
from vsae.training.optimiser import AdamW

Learn = Callable[[Any, Batch, int], tuple[Elbo, Tensor]]  # model, batch, epoch → terms (E, B, M), loss

_WARM_UP = 3  # steps before the capture: libraries set themselves up in their first calls


class Step:
    """Moves the weights of `model`, which are the rows of one matrix meanwhile; `release` ends that."""

    def __init__(self, model: LatentModel, learn: Learn, config: VSAEConfig) -> None:
        self.model, self.learn, self.clip = model, learn, config.clip
        self.optimiser = AdamW(model.parameters(), config.weight_decay, config.members)
        device = self.optimiser.weights.device
        self.rate = torch.zeros((), dtype=torch.float64, device=device)
        self.sums = torch.zeros(len(Elbo._fields), config.members, device=device)  # of the terms, until they are read
        self.finite = torch.ones((), dtype=torch.bool, device=device)  # once it is False, no weight moves any more
        self.warm = 0
        self.graph: torch.cuda.CUDAGraph | None = None

    def __call__(self, batch: Batch, epoch: int, rate: float) -> None:
        self.rate.fill_(rate)
        if self.rate.is_cuda and self.model.has_constant_steps:
            self._replay(batch, epoch)
        else:
            self._take(batch, epoch)

    def _take(self, batch: Batch, epoch: int) -> None:
        terms, loss = self.learn(self.model, batch, epoch)
        gradient = self.optimiser.gradient(loss)
        with torch.no_grad():
            self.sums += torch.stack(terms).sum(-1).mean(-1)
            norm = clip_members(gradient, self.clip)
            self.finite &= torch.isfinite(norm.sum() + loss)
            if gradient.is_cuda:  # which can not be asked without waiting for it
                gradient = torch.where(self.finite, gradient, 0.0)
                self.optimiser.step(gradient, self.rate * self.finite)
            elif bool(self.finite):
                self.optimiser.step(gradient, self.rate)

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

    def release(self) -> None:
        self.graph = None
        self.optimiser.release()


def clip_members(gradient: Tensor, limit: float | None) -> Tensor:
    """Scale each member's gradient, a row of (E, P), to a norm of at most `limit`; gives back the norms, (E,).

    >>> gradient = torch.tensor([[3.0, 4.0], [0.3, 0.4]])
    >>> clip_members(gradient, 1.0), gradient
    (tensor([5.0000, 0.5000]), tensor([[0.6000, 0.8000],
            [0.3000, 0.4000]]))
    """
    norm = torch.linalg.vector_norm(gradient, dim=1)
    if limit is not None:
        gradient.mul_((limit / norm).clamp_max(1.0)[:, None])
    return norm
