"""AdamW over all weights as one vector.

Not torch's own, for two reasons: making a `torch.optim` optimiser imports torch's compiler, which takes longer than
many a fit here; and one vector needs a dozen operations a step, where some fifty small tensors need hundreds.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

_BETA1, _BETA2, _EPSILON = 0.9, 0.999, 1e-8  # Kingma and Ba's


class AdamW:
    """Decoupled weight decay (Loshchilov and Hutter); the parameters and their gradients become views of one vector.

    >>> w = nn.Parameter(torch.tensor([1.0, -1.0]))
    >>> optimiser = AdamW([w], weight_decay=0.0)
    >>> for _ in range(200):
    ...     optimiser.zero_grad()
    ...     (w**2).sum().backward()
    ...     optimiser.step(0.02)
    >>> bool(w.detach().abs().max() < 0.01)
    True
    """

    def __init__(self, parameters: Iterable[nn.Parameter], weight_decay: float) -> None:
        self.parameters, self.weight_decay, self.steps = list(parameters), weight_decay, 0
        self.weights = torch.cat([p.detach().flatten() for p in self.parameters])
        self.gradient, self.mean, self.square = (torch.zeros_like(self.weights) for _ in range(3))
        sizes = [p.numel() for p in self.parameters]
        pieces = zip(self.parameters, self.weights.split(sizes), self.gradient.split(sizes), strict=True)
        for parameter, weight, gradient in pieces:
            parameter.data = weight.view_as(parameter)
            parameter.grad = gradient.view_as(parameter)

    def zero_grad(self) -> None:
        self.gradient.zero_()

    @torch.no_grad()
    def step(self, rate: float) -> None:
        self.steps += 1
        self.mean.lerp_(self.gradient, 1 - _BETA1)
        self.square.mul_(_BETA2).addcmul_(self.gradient, self.gradient, value=1 - _BETA2)
        unbiased = self.square.div(1 - _BETA2**self.steps).sqrt_().add_(_EPSILON)
        self.weights.mul_(1 - rate * self.weight_decay)
        self.weights.addcdiv_(self.mean, unbiased, value=-rate / (1 - _BETA1**self.steps))

    def state(self) -> dict[str, Tensor]:
        """What a checkpoint must hold beside the weights."""
        return {"mean": self.mean, "square": self.square, "steps": torch.tensor(self.steps)}

    def load(self, state: dict[str, Tensor]) -> None:
        self.mean.copy_(state["mean"])
        self.square.copy_(state["square"])
        self.steps = int(state["steps"])
