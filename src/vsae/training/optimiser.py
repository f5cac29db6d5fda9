"""AdamW over all weights as one matrix, a row a member.

Not `torch.optim`, for two reasons: making one of its optimisers imports torch's compiler, which takes longer than many
a fit here; and one matrix needs one operation a step, torch's fused kernel, where fifty small tensors need hundreds.
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
        self.found = torch.empty_like(self.weights)  # kept: fresh memory costs more than what is done with it
        self.steps = torch.zeros((), device=self.weights.device)
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
    def step(self, gradient: Tensor, rate: Tensor | float, skipped: Tensor | None = None) -> None:
        """Where `skipped`, a float, is 1, nothing moves: a GPU need not be waited for to find out."""
        self.steps += 1
        torch._fused_adamw_(
            [self.weights], [gradient], [self.mean], [self.square], [], [self.steps],
            lr=rate, beta1=_BETA1, beta2=_BETA2, eps=_EPSILON, weight_decay=self.weight_decay,
            amsgrad=False, maximize=False, found_inf=skipped,
        )  # fmt: skip

    def release(self) -> None:
        """Give the parameters memory of their own again."""
        for parameter in self.parameters:
            parameter.data = parameter.data.clone(memory_format=torch.contiguous_format)

    def state(self) -> dict[str, Tensor]:
        """What a checkpoint must hold beside the weights."""
        return {"mean": self.mean, "square": self.square, "steps": self.steps}
