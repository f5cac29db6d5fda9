"""AdamW over all weights as one matrix, a row a member.

Not torch's own, for two reasons: making a `torch.optim` optimiser imports torch's compiler, which takes longer than
many a fit here; and one matrix needs a dozen operations a step, where some fifty small tensors need hundreds.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

_BETA1, _BETA2, _EPSILON = 0.9, 0.999, 1e-8  # Kingma and Ba's


class AdamW:
    """Decoupled weight decay (Loshchilov and Hutter); the parameters, each (E, …), become views of one (E, P) matrix.

    The rate may be a tensor, and the count of steps is one, so that a step can be captured as a CUDA graph.

    >>> w = nn.Parameter(torch.tensor([1.0, -1.0]))
    >>> optimiser = AdamW([w], weight_decay=0.0)
    >>> for _ in range(200):
    ...     optimiser.step(optimiser.gradient((w**2).sum()), 0.02)
    >>> bool(w.detach().abs().max() < 0.01)
    True
    """

    def __init__(self, parameters: Iterable[nn.Parameter], weight_decay: float, members: int = 1) -> None:
        self.parameters, self.weight_decay, self.members = list(parameters), weight_decay, members
        self.weights = self._matrix([p.detach() for p in self.parameters])
        self.mean, self.square = torch.zeros_like(self.weights), torch.zeros_like(self.weights)
        # kept, because a fresh megabyte a step costs more than what is done with it
        self.found, self.update = torch.empty_like(self.weights), torch.empty_like(self.weights)
        self.steps = torch.zeros((), dtype=torch.float64, device=self.weights.device)
        columns = self.weights.split([p.numel() // members for p in self.parameters], dim=1)
        for parameter, weights in zip(self.parameters, columns, strict=True):
            parameter.data = weights.view(parameter.shape)

    def _matrix(self, tensors: Iterable[Tensor], out: Tensor | None = None) -> Tensor:
        return torch.cat([x.reshape(self.members, -1) for x in tensors], dim=1, out=out)

    def gradient(self, loss: Tensor) -> Tensor:
        """(E, P), overwritten by the next"""
        found = torch.autograd.grad(loss, self.parameters, allow_unused=True, materialize_grads=True)
        return self._matrix(found, out=self.found)

    @torch.no_grad()
    def step(self, gradient: Tensor, rate: Tensor | float) -> None:
        self.steps += 1
        self.mean.lerp_(gradient, 1 - _BETA1)
        self.square.mul_(_BETA2).addcmul_(gradient, gradient, value=1 - _BETA2)
        bias = torch.sqrt(1 - _BETA2**self.steps)  # of the square's root
        torch.sqrt(self.square, out=self.update).add_(_EPSILON * bias)
        torch.div(self.mean, self.update, out=self.update).mul_(rate * bias / (1 - _BETA1**self.steps))
        self.weights.mul_(1 - rate * self.weight_decay).sub_(self.update)

    def release(self) -> None:
        """Give the parameters memory of their own again."""
        for parameter in self.parameters:
            parameter.data = parameter.data.clone(memory_format=torch.contiguous_format)

    def state(self) -> dict[str, Tensor]:
        """What a checkpoint must hold beside the weights."""
        return {"mean": self.mean, "square": self.square, "steps": self.steps}
